/** In this repository the web examples share it. In an app of your own, that file is in the place of this one. */
export * from '../../previews/previews.ts'
