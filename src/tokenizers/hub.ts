// Files of a model on a hub that answers like huggingface.co: `<base>/<org>/<model>/resolve/<revision>/<file>`, kept on disk.
// What is kept is used again without asking; removing the folder fetches it anew. A file appears whole or not at all.
import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, open, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

export type Hub = {
  /** Such as https://huggingface.co. */
  readonly base: string
  readonly token: string | undefined
  readonly folder: string
  readonly maxBytes: number
  readonly signal: AbortSignal | undefined
  /** `total` is undefined where the hub does not tell. */
  readonly onProgress: ((file: string, bytes: number, total: number | undefined) => void) | undefined
}
export type HubName = { readonly model: string; readonly revision: string }
const mostRedirects = 5
/** Between two pieces of a file, milliseconds. */
const patience = 60_000

/** `org/model`, perhaps with `@revision`; undefined for what is no such name. */
export function hubName(text: string): HubName | undefined {
  const found = /^([\w-][\w.-]{0,95}\/[\w-][\w.-]{0,95})(?:@([\w-][\w.-]{0,199}))?$/.exec(text)
  return found?.[1] === undefined ? undefined : { model: found[1], revision: found[2] ?? 'main' }
}

/** The path of the file on disk; undefined where the model has none of that name. Throws an Error with a sentence. */
export async function hubFile(hub: Hub, { model, revision }: HubName, file: string): Promise<string | undefined> {
  const folder = join(hub.folder, model.replace('/', '--'), revision)
  const path = join(folder, file)
  if (existsSync(path)) return path
  if (existsSync(`${path}.absent`)) return undefined
  await mkdir(folder, { recursive: true })
  const url = new URL(`${hub.base.replace(/\/+$/, '')}/${model}/resolve/${revision}/${file}`)
  const slow = new AbortController()
  const signal = hub.signal ? AbortSignal.any([hub.signal, slow.signal]) : slow.signal
  const timer = setTimeout(() => slow.abort(new Error(`nothing came for ${patience / 1000} s`)), patience)
  try {
    const answer = await ask(hub, url, signal)
    if (answer.status === 404) {
      await answer.body?.cancel()
      await writeFile(`${path}.absent`, '')
      return undefined
    }
    if (!answer.ok || !answer.body) {
      await answer.body?.cancel()
      const closed = answer.status === 401 || answer.status === 403
      throw new Error(`the hub answers ${answer.status}${closed ? '; set HF_TOKEN to a token that may read it' : ''}`)
    }
    await keep(hub, file, answer, path, () => timer.refresh())
    return path
  } catch (error) {
    hub.signal?.throwIfAborted()
    throw new Error(`${model}: ${file} could not be fetched from ${url.origin}: ${reason(error)}.`, { cause: error })
  } finally {
    clearTimeout(timer)
  }
}

/** Follows redirects by hand: only to https or to where we are, and the token goes to the hub alone. */
async function ask(hub: Hub, first: URL, signal: AbortSignal): Promise<Response> {
  let url = first
  for (let n = 0; n <= mostRedirects; n++) {
    const headers =
      hub.token !== undefined && url.origin === first.origin ? { authorization: `Bearer ${hub.token}` } : {}
    const answer = await fetch(url, { redirect: 'manual', signal, headers })
    const location = answer.headers.get('location')
    if (answer.status < 300 || answer.status >= 400 || location === null) return answer
    await answer.body?.cancel()
    const next = new URL(location, url)
    if (next.protocol !== 'https:' && next.origin !== url.origin)
      throw new Error(`it redirects to ${next.origin}, which is not https`)
    url = next
  }
  throw new Error(`it redirects more than ${mostRedirects} times`)
}

async function keep(hub: Hub, file: string, answer: Response, path: string, alive: () => void): Promise<void> {
  const told = answer.headers.get('content-encoding') === null ? answer.headers.get('content-length') : null
  const total = told === null ? undefined : Number(told)
  const tooBig = (): Error => new Error(`it is larger than ${hub.maxBytes} bytes`)
  if (total !== undefined && total > hub.maxBytes) {
    await answer.body?.cancel()
    throw tooBig()
  }
  // Beside the file, so that the last step is a rename within one file system.
  const part = `${path}.${randomUUID()}.part`
  try {
    const out = await open(part, 'wx')
    try {
      let bytes = 0
      for await (const piece of answer.body as unknown as AsyncIterable<Uint8Array>) {
        alive()
        bytes += piece.byteLength
        if (bytes > hub.maxBytes) throw tooBig()
        await out.write(piece)
        hub.onProgress?.(file, bytes, total)
      }
      if (total !== undefined && bytes !== total) throw new Error(`it ended after ${bytes} of ${total} bytes`)
      await out.sync()
    } finally {
      await out.close()
    }
    await rename(part, path)
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}

function reason(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause instanceof Error ? `${error.message} (${error.cause.message})` : error.message
}
