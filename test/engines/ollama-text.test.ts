import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { harmless, OllamaText } from '../../src/engines/ollama-text.ts'
import { byteTokenizer } from '../../src/tokenizers/bytes.ts'
import { TokenRun } from '../../src/turn/tokens.ts'
import { idsOf, plainOf } from './token-prompts.ts'

const numRuns = Number(process.env['RUNS'] ?? 40)
const names = ['<|im_start|>', '<|im_end|>', '<think>', '</think>', '</s>', '<minimax:tool_call>', '｜DSML｜', '  ']
const tokenizer = byteTokenizer(names)
const end = tokenizer.control('<|im_end|>') ?? 0
/** Control tokens of families whose tokenizer this one is not; the model may have them all the same. */
const foreign = [
  ...['<|endoftext|>', '<|eot_id|>', '<|start_header_id|>', '<|channel|>', '<|reserved_special_token_247|>'],
  ...[
    '<｜User｜>',
    '<｜tool▁calls▁begin｜>',
    '<｜begin▁of▁sentence｜>',
    '[INST]',
    '[/INST]',
    '[TOOL_CALLS]',
    '[gMASK]',
  ],
  ...['<start_of_turn>', '<end_of_turn>', '<bos>', '<tool_call>', '</tool_response>', '<unused42>', '<|"|>'],
]
const danger = [...names.filter((name) => name.trim() !== ''), ...foreign]
/** What a tokenizer with special tokens on would find in a text. */
const found = (text: string): string[] => danger.filter((name) => text.includes(name))
const scraps = fc.constantFrom(
  ...danger,
  ...danger.flatMap((name) => [name.slice(0, -1), name.slice(1)]),
  '<',
  '<|',
  '|>',
  '[',
  ' ',
  'é',
  '🎉',
  '"\\\n',
  '\u2028',
)
const plain = fc.array(scraps, { maxLength: 12 }).map((all) => all.join(''))
const whole = (text: { readonly text: OllamaText; readonly rest: Buffer }): string =>
  JSON.parse(`"${Buffer.concat([text.text.bytes, text.rest]).toString()}"`) as string

describe('the text that Ollama is given', () => {
  it('holds no control token but those of control ids, whatever the plain text looks like (law 9)', () => {
    fc.assert(
      fc.property(fc.array(plain, { minLength: 1, maxLength: 6 }), (texts) => {
        const ids = texts.flatMap((text) => [...plainOf(tokenizer, text), end])
        const got = whole(OllamaText.empty.follow(TokenRun.empty.append(ids), tokenizer))
        const between = got.split('<|im_end|>')
        expect(between).toHaveLength(texts.length + 1)
        expect(between.flatMap(found)).toEqual([])
        // Only zero-width spaces were put in.
        expect(between.map((text) => text.replaceAll('\u200b', ''))).toEqual([...texts, ''])
      }),
      { numRuns },
    )
  })
  it('leaves alone what only resembles one', () => {
    for (const text of [
      'a < b | c > d',
      'x <| y',
      '[TODO] [INFO] [a]',
      '<b>bold</b> <s>gone',
      'List<T>',
      '    indented',
    ])
      expect(harmless(text, tokenizer)).toBe(text)
    expect(harmless('<|im_end|> and </s>', tokenizer)).toBe('<\u200b|im_end|> and <\u200b/s>')
  })
  it('is the same in steps as at once, and converts only what is new', () => {
    const part = fc.oneof(plain, fc.constantFrom('<|im_start|>', '<|im_end|>', '<think>'))
    fc.assert(
      fc.property(
        fc.array(fc.array(part, { maxLength: 5 }), { minLength: 1, maxLength: 6 }),
        fc.nat(5),
        (turns, branch) => {
          let run = TokenRun.empty
          let known = OllamaText.empty
          const kept: { text: OllamaText; run: TokenRun }[] = []
          for (const parts of turns) {
            run = run.append(idsOf(tokenizer, ...parts))
            const before = OllamaText.converted
            const got = known.follow(run, tokenizer)
            expect(OllamaText.converted - before).toBe(run.length - known.ids)
            expect(whole(got)).toBe(whole(OllamaText.empty.follow(run, tokenizer)))
            known = got.text
            kept.push({ text: known, run })
          }
          // A fork from any of them disturbs no other.
          const from = kept[branch % kept.length]
          if (!from) return
          const fork = from.run.append(idsOf(tokenizer, '<|im_start|>', 'another way', '<|im_end|>'))
          expect(whole(from.text.follow(fork, tokenizer))).toBe(whole(OllamaText.empty.follow(fork, tokenizer)))
          expect(whole(known.follow(run, tokenizer))).toBe(whole(OllamaText.empty.follow(run, tokenizer)))
        },
      ),
      { numRuns },
    )
  })
  it('lets Ollama put the beginning of the sequence itself', () => {
    const llama = byteTokenizer(['<|begin_of_text|>', '<|eot_id|>'])
    const run = TokenRun.empty.append(idsOf(llama, '<|begin_of_text|>', 'hi', '<|eot_id|>', '<|begin_of_text|>'))
    expect(whole(OllamaText.empty.follow(run, llama))).toBe('hi<|eot_id|><|begin_of_text|>')
  })
  it('takes hostile text in its stride', () => {
    for (const piece of ['<|', '<|a', '[', '<', '｜']) {
      const text = piece.repeat(200_000)
      const begun = performance.now()
      harmless(text, tokenizer)
      expect(performance.now() - begun).toBeLessThan(1500)
    }
  })
})
