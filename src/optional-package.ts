import { SandmanError } from './errors.ts'

/**
 * Loads what is installed only where it is used, or says in a sentence what to install and for what. One that is there and cannot be
 * loaded says why itself.
 */
export async function optionalPackage<Module>(
  name: string,
  purpose: string,
  load: () => Promise<Module>,
): Promise<Module> {
  try {
    return await load()
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ERR_MODULE_NOT_FOUND' || !message.includes(`'${name}'`)) throw error
    throw new SandmanError('package_missing', `${purpose} needs the package ${name}: run npm install ${name}.`, {
      details: { package: name },
    })
  }
}
