// What a benchmark must not leave behind: folders for the moment, which go when they are no longer needed, and when the
// process is told to end, since no `finally` is run then. Processes end by themselves when their parent does.
import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export type Folder = { readonly path: string; remove(): Promise<void> }

const left = new Set<string>()
let watching = false

/** A new one in the system's folder for such things. */
export async function temporaryFolder(prefix: string): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), prefix))
  left.add(path)
  if (!watching) process.once('exit', removeAll)
  watching = true
  return {
    path,
    remove: async () => {
      await rm(path, { recursive: true, force: true })
      left.delete(path)
    },
  }
}
function removeAll(): void {
  for (const path of left)
    try {
      rmSync(path, { recursive: true, force: true })
    } catch {
      // Somebody still writes there; the others have to go all the same.
    }
}
