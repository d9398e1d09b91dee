/** Sandman runs in Node as it is, and is not bundled. */
export default { serverExternalPackages: ['sandman'] }
