// What engines of token ids that take no pictures say to a conversation that has some.
import { ApiError } from '../protocol/errors.ts'
import type { Chain } from '../turn/chain.ts'

/** Throws ApiError `unsupported_by_engine`. */
export function refusePictures({ pictures }: Chain, engine: string): void {
  if (pictures > 0)
    throw new ApiError(
      'unsupported_by_engine',
      `The engine '${engine}' cannot do 'input_image': it is sent token ids alone. Use an engine of type chat, which passes images on.`,
      'input_image',
    )
}
