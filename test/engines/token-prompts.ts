// What tests of engines that take tokens are made of: ids, prompts, and what a generation gave back.
import type { Prompt, Tokenizer } from '../../src/turn/ports.ts'
import { TokenRun } from '../../src/turn/tokens.ts'
import { chainOf, type Read, user } from './simulated-generations.ts'

export const stop = '<|im_end|>'
export const chain = chainOf([user('hi')])
/** Of a text short enough to be encoded at once, whatever it looks like. */
export const plainOf = (tokenizer: Tokenizer, text: string): number[] =>
  Array.from(tokenizer.encode(text) as ArrayLike<number>)
/** Control tokens by name, everything else as plain text. */
export const idsOf = (tokenizer: Tokenizer, ...parts: readonly string[]): number[] =>
  parts.flatMap((part) => tokenizer.control(part) ?? plainOf(tokenizer, part))
/** A user's turn and the opening of the model's. */
export const turn = (tokenizer: Tokenizer, text: string): number[] =>
  idsOf(tokenizer, '<|im_start|>', `user\n${text}`, stop, '\n', '<|im_start|>', 'assistant\n')
export const promptOf = (
  tokenizer: Tokenizer,
  ids: readonly number[] | TokenRun,
  rest: Partial<Prompt> = {},
): Prompt => ({
  run: ids instanceof TokenRun ? ids : TokenRun.empty.append(ids),
  common: 0,
  tokenizer,
  stops: [tokenizer.control(stop) ?? -1],
  constraint: undefined,
  pictures: [],
  written: () => [],
  ...rest,
})
export const tokensOf = (got: Read): number[] => got.chunks.flatMap((c) => [...(c.tokens ?? [])])
export const textOf = (got: Read): string => got.chunks.map((c) => c.text ?? '').join('')
export const warmOf = (got: Read): unknown => got.chunks.findLast((c) => c.warm !== undefined)?.warm
export async function until(what: () => boolean | Promise<boolean>, ms = 4000): Promise<void> {
  for (const end = Date.now() + ms; !(await what()); await new Promise((r) => setTimeout(r, 5)))
    if (Date.now() > end) throw new Error('did not come to be')
}
