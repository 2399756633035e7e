// Images and files inside a request: what is accepted, checked once at the door, and decoded by engines that need bytes.
// Nothing is fetched here, and no message ever repeats what was sent.
import { ApiError } from './errors.ts'

export type ImageType = 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp'

/** Bytes one image or file may have once decoded. */
export const maxImageBytes = 50 * 1024 * 1024
// A data URL's head is a media type and a few parameters; a comma further on belongs to no head.
const maxHead = 256

const badUrl = (message: string, param: string): ApiError => new ApiError('invalid_image_url', message, param)

/** Refuses an image that is no data URL of a PNG, JPEG, GIF or WebP within the size limit. `param` is its place. */
export function checkImage(url: string, param: string): void {
  const data = dataUrl(url, param, 'An image')
  const size = decodedSize(url, data.start)
  if (size === undefined) throw new ApiError('invalid_base64_image', undefined, param)
  if (size > maxImageBytes) throw new ApiError('image_too_large', tooLarge('An image'), param)
  if (!isBase64(url, data.start, size)) throw new ApiError('invalid_base64_image', undefined, param)
  if (imageType(headBytes(url, data.start)) === undefined) throw new ApiError('invalid_image', undefined, param)
}

/** Refuses file data that is neither a base64 data URL nor plain base64, or is over the size limit. */
export function checkFile(data: string, param: string): void {
  const start = /^data:/i.test(data) ? dataUrl(data, param, 'A file').start : 0
  const size = decodedSize(data, start)
  if (size !== undefined && size > maxImageBytes) throw new ApiError('invalid_request', tooLarge('A file'), param)
  if (size === undefined || !isBase64(data, start, size))
    throw new ApiError('invalid_request', 'A file does not hold valid base64.', param)
}

/** Refuses every URL of a file: none is fetched. */
export const refuseFileUrl = (param: string): ApiError =>
  badUrl('Files by URL are not fetched; send `file_data`.', param)

/** Refuses an uploaded file's id: there is no file storage here. */
export const refuseFileId = (param: string): ApiError =>
  new ApiError('unsupported_parameter', 'Uploaded files are not offered; send the content as a data URL.', param)

/**
 * The media type and the bytes of a data URL that the door has accepted, or undefined for anything else. For an image
 * the type is what its bytes say, whatever the URL claims.
 */
export function decodeDataUrl(url: string): { type: string; bytes: Buffer } | undefined {
  const head = splitHead(url)
  if (head === undefined) return undefined
  const bytes = Buffer.from(url.slice(head.start), 'base64')
  return { type: imageType(bytes) ?? head.type, bytes }
}

/** The image format of bytes by their first twelve, undefined for any other. */
export function imageType(bytes: Buffer): ImageType | undefined {
  const text = bytes.toString('latin1', 0, 12)
  if (text.startsWith('\x89PNG\r\n\x1a\n')) return 'image/png'
  if (text.startsWith('\xff\xd8\xff')) return 'image/jpeg'
  if (text.startsWith('GIF87a') || text.startsWith('GIF89a')) return 'image/gif'
  if (text.startsWith('RIFF') && text.startsWith('WEBP', 8)) return 'image/webp'
  return undefined
}

const tooLarge = (what: string): string => `${what} is over ${maxImageBytes / 1024 / 1024} MiB.`

function dataUrl(url: string, param: string, what: string): { type: string; start: number } {
  if (/^https?:/i.test(url)) throw badUrl(`${what} by http(s) URL is not fetched; send a data URL.`, param)
  const head = splitHead(url)
  if (head === undefined) throw badUrl(`${what} must be a data URL: data:<media type>;base64,<data>.`, param)
  return head
}

/** `start` is where the base64 begins. */
function splitHead(url: string): { type: string; start: number } | undefined {
  const comma = url.slice(0, maxHead).indexOf(',')
  const head = /^data:([\w.+-]+\/[\w.+-]+)(?:;[\w.+-]+=[^;,]*)*;base64$/i.exec(url.slice(0, Math.max(comma, 0)))
  const type = head?.[1]
  return type === undefined ? undefined : { type: type.toLowerCase(), start: comma + 1 }
}

/** Bytes that the base64 from `start` on stands for; undefined where its length or padding rules base64 out. */
function decodedSize(text: string, start: number): number | undefined {
  const length = text.length - start
  if (length % 4 !== 0) return undefined
  const pads = length === 0 ? 0 : text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0
  return (length / 4) * 3 - pads
}

// A scratch block: the native decoder skips characters that are no base64, so every block must come out full.
const block = Buffer.allocUnsafeSlow(48 * 1024)
const blockChars = (block.length / 3) * 4

function isBase64(text: string, start: number, size: number): boolean {
  // The native decoder takes the URL alphabet too; most engines do not.
  if (text.includes('-', start) || text.includes('_', start)) return false
  let left = size
  for (let at = start; at < text.length; at += blockChars) {
    const wrote = block.write(text.slice(at, at + blockChars), 'base64')
    if (wrote !== Math.min(left, block.length)) return false
    left -= wrote
  }
  return left === 0
}

const headBytes = (url: string, start: number): Buffer => Buffer.from(url.slice(start, start + 24), 'base64')
