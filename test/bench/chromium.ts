// A browser for tests: Chromium of the system, or where CHROMIUM says. Undefined where there is none.
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'

const names = ['chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome']

export function chromiumPath(env: NodeJS.ProcessEnv = process.env): string | undefined {
  const { CHROMIUM, PATH = '' } = env
  if (CHROMIUM !== undefined && CHROMIUM !== '') return CHROMIUM
  const folders = PATH.split(delimiter).filter((folder) => folder !== '')
  return folders.flatMap((folder) => names.map((name) => join(folder, name))).find(runs)
}
function runs(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
