/**
 * Characters that nobody sees and that do something all the same: controls, line ends of other kinds, marks, embeddings, overrides and
 * isolates of direction, what has no width, tags, and halves of characters. Whoever shows what others wrote writes them out.
 */
export const UNSEEN =
  /\p{Cc}|[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|\p{Cs}/gu
