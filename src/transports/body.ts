// Request bodies over HTTP: content encodings undone within the size limit, then the JSON door.
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate, type ZlibOptions } from 'node:zlib'
import { Decompress } from 'fzstd'
import { ApiError } from '../protocol/errors.ts'
import { parseObject } from '../protocol/json.ts'

type Undo = (bytes: Buffer, options: ZlibOptions) => Promise<Buffer>
const encodings: Readonly<Record<string, Undo | undefined>> = {
  gzip: promisify<Buffer, ZlibOptions, Buffer>(gunzip),
  'x-gzip': promisify<Buffer, ZlibOptions, Buffer>(gunzip),
  deflate: promisify<Buffer, ZlibOptions, Buffer>(inflate),
  br: promisify<Buffer, ZlibOptions, Buffer>(brotliDecompress),
  zstd: async (bytes, { maxOutputLength = Infinity }) => unzstd(bytes, maxOutputLength),
}

/** The JSON object in a request body. Throws invalid_json, payload_too_large, unsupported_media_type. */
export async function readBody(
  bytes: unknown,
  encoding: string | undefined,
  limit: number,
): Promise<Record<string, unknown>> {
  if (!Buffer.isBuffer(bytes) || bytes.length === 0)
    throw new ApiError('invalid_json', 'The request has no body; send a JSON object.')
  return parseObject(await decoded(bytes, encoding, limit))
}

async function decoded(bytes: Buffer, encoding: string | undefined, limit: number): Promise<Buffer> {
  const name = encoding?.trim().toLowerCase() ?? ''
  if (name === '' || name === 'identity') return bytes
  const undo = encodings[name]
  if (!undo)
    throw new ApiError(
      'unsupported_media_type',
      `Content encoding '${name.slice(0, 40)}' is unknown; send gzip, deflate, br or zstd.`,
    )
  try {
    return await undo(bytes, { maxOutputLength: limit })
  } catch (e) {
    if (e instanceof ApiError) throw e
    if (e instanceof RangeError)
      throw new ApiError('payload_too_large', `The body is over ${limit} bytes once it is unpacked.`)
    throw new ApiError('invalid_json', `The body is not valid ${name}.`)
  }
}
function unzstd(bytes: Buffer, limit: number): Buffer {
  checkZstd(bytes, Math.max(limit, leastWindow))
  const parts: Uint8Array[] = []
  let size = 0
  const stream = new Decompress((part) => {
    size += part.length
    if (size > limit) throw new RangeError('over the limit')
    parts.push(part)
  })
  // In pieces, so that the limit is met before everything is unpacked.
  for (let at = 0; at < bytes.length; at += 65_536)
    stream.push(bytes.subarray(at, at + 65_536), at + 65_536 >= bytes.length)
  return Buffer.concat(parts)
}

/** A window that every decoder must have room for (RFC 8878, 3.1.1.1.2). */
const leastWindow = 8 * 1024 * 1024

/**
 * The library makes room for a frame's whole window when it meets its header, up to 2 GiB for nine bytes. So the frame
 * is walked first: there must be one only, and its window within `limit`. RFC 8878, 3.1.1.
 */
function checkZstd(bytes: Buffer, limit: number): void {
  const number = (at: number, length: number): number => {
    if (at + length > bytes.length) throw new Error('cut off')
    return length === 8 ? Number(bytes.readBigUInt64LE(at)) : length === 0 ? 0 : bytes.readUIntLE(at, length)
  }
  const flags = number(4, 1)
  const whole = (flags & 0x20) !== 0
  let at = 5
  let window = 0
  if (!whole) {
    const code = number(at++, 1)
    window = 2 ** (10 + (code >> 3)) * (1 + (code & 7) / 8)
  }
  at += [0, 1, 2, 4][flags & 3] ?? 0
  const length = flags >> 6 === 0 ? Number(whole) : 1 << (flags >> 6)
  if (whole) window = number(at, length)
  if (window > limit) throw new RangeError('over the limit')
  at += length
  for (let last = false; !last;) {
    const head = number(at, 3)
    last = (head & 1) !== 0
    at += 3 + ((head & 6) === 2 ? 1 : head >>> 3)
  }
  if (at + (flags & 4) !== bytes.length) throw new Error('more than a frame, or less')
}
