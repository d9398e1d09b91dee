/** What a server on this machine tells an app of a caller on this machine. */
export const HERE = { incoming: { socket: { remoteAddress: '127.0.0.1' } } }
