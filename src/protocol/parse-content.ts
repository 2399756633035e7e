// The content of messages and of tool outputs: a string becomes one part, parts are checked one by one, images and files
// before anything else sees them. Parts of unknown types are kept as they came.
import { z } from 'zod'
import { complain } from './complaint.ts'
import { ApiError } from './errors.ts'
import { checkFile, checkImage, refuseFileId, refuseFileUrl } from './images.ts'
import type { InputPart, Message, OutputPart, Role, ToolOutput } from './items.ts'
import { heldOnce } from './pictures.ts'

type Fields = Record<string, unknown>

const word = z.string().nullish()
const breakpoint = z.looseObject({ mode: z.literal('explicit'), ttl: z.string().optional() }).nullish()
const list = z.array(z.unknown()).nullish()

const partShapes: ReadonlyMap<string, z.ZodType<Fields>> = new Map<string, z.ZodType<Fields>>([
  ['input_text', z.looseObject({ type: z.string(), text: z.string(), prompt_cache_breakpoint: breakpoint })],
  [
    'input_image',
    z.looseObject({
      type: z.string(),
      detail: z.enum(['low', 'high', 'auto', 'original']).nullish(),
      image_url: word,
      file_id: word,
      prompt_cache_breakpoint: breakpoint,
    }),
  ],
  [
    'input_file',
    z.looseObject({
      type: z.string(),
      detail: z.enum(['low', 'high', 'auto']).nullish(),
      file_data: word,
      file_id: word,
      file_url: word,
      filename: word,
      prompt_cache_breakpoint: breakpoint,
    }),
  ],
  ['output_text', z.looseObject({ type: z.string(), text: z.string(), annotations: list, logprobs: list })],
  ['refusal', z.looseObject({ type: z.string(), refusal: z.string() })],
])

/** Content of a message as parts. Throws ApiError: invalid_request and what images.ts refuses. */
export function parseContent(value: unknown, role: Role, param: string): Message['content'] {
  if (typeof value === 'string')
    return [
      role === 'assistant'
        ? { type: 'output_text', text: value, annotations: [] }
        : { type: 'input_text', text: value },
    ]
  return parseParts(value, role === 'assistant' ? 'output_text' : 'input_text', param)
}

/** A tool's output: its text, or parts. Throws as parseContent does. */
export function parseOutput(value: unknown, param: string): ToolOutput {
  if (typeof value === 'string') return value
  // The parts of an output are input to the model; output parts among them are typed as what they were sent as.
  return parseParts(value, 'input_text', param) as InputPart[]
}

/** The picture of an image part or a screenshot. Throws what images.ts refuses. */
export function checkPicture(part: { image_url?: unknown; file_id?: unknown }, param: string): void {
  if (typeof part.image_url === 'string') checkImage(part.image_url, `${param}.image_url`)
  else if (typeof part.file_id === 'string') throw refuseFileId(`${param}.file_id`)
  else throw new ApiError('invalid_request', `'${param}' needs an \`image_url\`.`, `${param}.image_url`)
}

function parseParts(value: unknown, plain: 'input_text' | 'output_text', param: string): (InputPart | OutputPart)[] {
  if (!Array.isArray(value))
    throw new ApiError('invalid_request', `'${param}' must be a string or an array of parts.`, param)
  return value.map((part: unknown, i) => parsePart(part, plain, `${param}.${i}`))
}

function parsePart(value: unknown, plain: 'input_text' | 'output_text', param: string): InputPart | OutputPart {
  if (
    typeof value !== 'object' ||
    value === null ||
    Array.isArray(value) ||
    !('type' in value) ||
    typeof value.type !== 'string'
  )
    throw new ApiError('invalid_request', `'${param}' must be an object with a \`type\`.`, param)
  const sent = raise(value as Fields & { type: string }, plain)
  const shape = partShapes.get(sent.type)
  // Newer clients: kept and typed as a part we know, which every reader of parts has a default for.
  if (shape === undefined) return sent as unknown as InputPart
  const parsed = shape.safeParse(sent)
  if (!parsed.success) throw complain(parsed.error, param)
  const part = withoutNulls(parsed.data)
  if (part['type'] === 'input_image') return picture(part, param)
  if (part['type'] === 'input_file') checkFilePart(part, param)
  else if (part['type'] === 'output_text') part['annotations'] ??= []
  // The shape of this type has just been checked.
  return part as unknown as InputPart
}

function picture(part: Fields, param: string): InputPart {
  const { image_url: url } = part
  if (typeof url === 'string') return heldOnce({ ...part, type: 'input_image', image_url: url }, param)
  checkPicture(part, param)
  return part as unknown as InputPart
}
function checkFilePart(part: Fields, param: string): void {
  if (typeof part['file_url'] === 'string') throw refuseFileUrl(`${param}.file_url`)
  if (typeof part['file_id'] === 'string') throw refuseFileId(`${param}.file_id`)
  if (typeof part['file_data'] !== 'string')
    throw new ApiError('invalid_request', `'${param}' needs \`file_data\`.`, `${param}.file_data`)
  checkFile(part['file_data'], `${param}.file_data`)
}

const optional = [
  'detail',
  'image_url',
  'file_id',
  'file_data',
  'file_url',
  'filename',
  'prompt_cache_breakpoint',
  'annotations',
  'logprobs',
]
/** A null in an optional field is the same as none. */
function withoutNulls(part: Fields): Fields {
  for (const key of optional) if (part[key] === null || part[key] === undefined) delete part[key]
  return part
}

/** Parts as older clients and chat clients write them, in the form of today. */
function raise(part: Fields & { type: string }, plain: 'input_text' | 'output_text'): Fields & { type: string } {
  if (part.type === 'text') return { ...part, type: plain }
  const type = part.type === 'image_url' ? 'input_image' : part.type
  if (type === 'input_image') {
    const { image_url: nested, source, ...rest } = part
    if (isObject(nested)) return { detail: nested['detail'], ...rest, type, image_url: nested['url'] }
    if (isObject(source)) return { ...rest, type, image_url: sourceUrl(source) }
  }
  if (type === 'input_file' && isObject(part['source'])) {
    const { source, ...rest } = part
    const from = part['source']
    const name = typeof from['filename'] === 'string' ? { filename: from['filename'] } : {}
    return {
      ...name,
      ...rest,
      type,
      ...(from['type'] === 'url' ? { file_url: from['url'] } : { file_data: sourceUrl(from) }),
    }
  }
  return type === part.type ? part : { ...part, type }
}

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

function sourceUrl(source: Fields): unknown {
  if (source['type'] !== 'base64') return source['url']
  const { media_type: type, data } = source
  return typeof type === 'string' && typeof data === 'string' ? `data:${type};base64,${data}` : undefined
}
