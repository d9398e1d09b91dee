/** What a sandbox of ours carries at a provider that takes metadata: when the sandbox is made, and never again. */
export const FLEET = 'sandman_fleet'
export const SANDBOX = 'sandman_sandbox'
export const LIFE = 'sandman_life'
