// Models from the hub: `org/repo/file.gguf` as a file in a cache folder. A file is there whole or not at all.
import { createWriteStream, existsSync, mkdirSync, openSync, readSync, closeSync, renameSync, rmSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { once } from 'node:events'

export type Download = {
  readonly url: string
  readonly file: string
  /** Largest size, in bytes. */
  readonly limit: number
  /** Without a byte, in milliseconds. */
  readonly stallMs: number
}
/** Called for every piece that comes, with bytes; `total` where the hub tells it. */
export type Progress = (got: number, total: number | undefined) => void

const hubName = /^([\w.-]+\/[\w.-]+)\/([\w./-]+\.gguf)$/

/**
 * Where a model is: a file that is there, or one of the hub and where it will be. Throws an Error with a sentence where
 * it is neither.
 */
export function modelFile(
  model: string,
  cacheDir: string | undefined,
  hub: string | undefined,
): { readonly file: string; readonly url?: string } {
  const file = resolve(model)
  if (existsSync(file)) return { file }
  const [, repo = '', path = ''] = hubName.exec(model) ?? []
  if (repo === '' || isAbsolute(model) || model.split('/').some((part) => part === '..' || part === '.'))
    throw new Error(`there is no model file ${file}, and '${model}' is no name on the hub (org/repo/file.gguf).`)
  const cached = join(cacheDir ?? join(homedir(), '.cache/continuo/models'), repo, path)
  if (existsSync(cached)) return { file: cached }
  const base = (hub ?? process.env['HF_ENDPOINT'] ?? 'https://huggingface.co').replace(/\/+$/, '')
  return { file: cached, url: `${base}/${repo}/resolve/main/${path}` }
}

/** Throws an Error with a sentence; what had come by then is removed. */
export async function download({ url, file, limit, stallMs }: Download, progress: Progress): Promise<void> {
  const part = `${file}.${process.pid}.part`
  const stop = new AbortController()
  const stalled = setTimeout(() => stop.abort(new Error(`no byte came for ${stallMs / 1000} s`)), stallMs)
  try {
    const token = process.env['HF_TOKEN']
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }
    const answer = await fetch(url, { headers, signal: stop.signal })
    if (!answer.ok || !answer.body) throw new Error(`the hub answered ${answer.status}`)
    const told = Number(answer.headers.get('content-length') ?? NaN)
    const total = Number.isSafeInteger(told) && told > 0 ? told : undefined
    if (total !== undefined && total > limit) throw new Error(`its ${total} bytes are over the limit of ${limit}`)
    mkdirSync(dirname(file), { recursive: true })
    const got = await write(answer.body, part, limit, (bytes) => {
      stalled.refresh()
      progress(bytes, total)
    })
    if (total !== undefined && got !== total) throw new Error(`it broke off after ${got} of ${total} bytes`)
    if (!isGguf(part)) throw new Error('what came is no GGUF file')
    renameSync(part, file)
  } catch (e) {
    rmSync(part, { force: true })
    throw new Error(`The model could not be downloaded from ${url}: ${reason(e)}. Try again, or give a file.`, {
      cause: e,
    })
  } finally {
    clearTimeout(stalled)
  }
}
const reason = (e: unknown): string => {
  const { message, cause } = e instanceof Error ? e : new Error(String(e))
  return cause instanceof Error ? `${message} (${cause.message})` : message
}

async function write(
  body: AsyncIterable<Uint8Array>,
  part: string,
  limit: number,
  progress: (bytes: number) => void,
): Promise<number> {
  const out = createWriteStream(part, { mode: 0o644 })
  let got = 0
  try {
    await once(out, 'open')
    for await (const piece of body) {
      got += piece.length
      if (got > limit) throw new Error(`it is over the limit of ${limit} bytes`)
      if (!out.write(piece)) await once(out, 'drain')
      progress(got)
    }
  } finally {
    out.end()
    if (!out.closed) await once(out, 'close')
  }
  return got
}
function isGguf(file: string): boolean {
  const start = Buffer.alloc(4)
  const fd = openSync(file, 'r')
  readSync(fd, start, 0, 4, 0)
  closeSync(fd)
  return start.toString('latin1') === 'GGUF'
}
