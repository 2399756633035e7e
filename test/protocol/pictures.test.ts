// A picture that is sent again is the one that is there already, for as long as anybody has it.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { ApiError } from '../../src/protocol/errors.ts'
import { extendHash } from '../../src/protocol/item-hash.ts'
import type { InputImage, Item, Message } from '../../src/protocol/items.ts'
import { heldPictures } from '../../src/protocol/pictures.ts'
import { parseCreate } from '../../src/protocol/request.ts'

/** A PNG's first bytes, and `length` more. */
const png = (length: number, fill: number): string =>
  `data:image/png;base64,${Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), Buffer.alloc(length, fill)]).toString('base64')}`
/** As it comes from the wire: nothing of it is shared. */
const sent = (part: object): Item => {
  const body = JSON.stringify({ model: 'm', input: [{ type: 'message', role: 'user', content: [part] }] })
  const [item] = parseCreate(JSON.parse(body)).input
  if (!item) throw new Error('no item')
  return item
}
const pictureOf = (item: Item): InputImage => (item as Message).content[0] as InputImage
const image = (url: string, more: object = {}): object => ({ type: 'input_image', image_url: url, ...more })

test('two requests with the same picture share it, whatever else they say of it', () => {
  const url = png(1000, 1)
  const one = pictureOf(sent(image(url, { detail: 'high' })))
  expect(one).toEqual({ type: 'input_image', image_url: url, detail: 'high' })
  expect(pictureOf(sent(image(url, { detail: 'high' })))).toBe(one)
  const low = pictureOf(sent(image(url, { detail: 'low', prompt_cache_breakpoint: { mode: 'explicit' } })))
  expect(low).toEqual({ ...one, detail: 'low', prompt_cache_breakpoint: { mode: 'explicit' } })
  expect(pictureOf(sent(image(png(1000, 2), { detail: 'high' })))).not.toEqual(one)
})
test('what is no picture is refused each time', () => {
  for (let n = 0; n < 2; n++)
    for (const url of ['data:image/png;base64,AAAA', 'https://example.com/a.png', `${png(30, 1)}!`])
      expect(() => sent(image(url))).toThrow(ApiError)
})
test('a picture that nobody has any more is forgotten', async () => {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  const kept = sent(image(png(3000, 7)))
  const before = heldPictures()
  for (let n = 0; n < 20; n++) sent(image(png(2000 + n, 8)))
  expect(heldPictures()).toBeGreaterThan(before)
  for (let n = 0; n < 100 && heldPictures() > before; n++) {
    await new Promise((resolve) => setTimeout(resolve, 10))
    collect()
  }
  expect(heldPictures()).toBeLessThanOrEqual(before)
  expect(pictureOf(sent(image(png(3000, 7))))).toBe(pictureOf(kept))
})
test('the hash of an item tells pictures and files apart, and reads their megabytes once', () => {
  const hashOf = (item: Item): string => extendHash('', item)
  const [one, other] = [sent(image(png(6_000_000, 1))), sent(image(png(6_000_000, 2)))]
  expect(hashOf(one)).not.toBe(hashOf(other))
  expect(hashOf(one)).not.toBe(hashOf(sent(image(png(6_000_000, 1), { detail: 'low' }))))
  expect(hashOf(one)).toBe(hashOf(sent(image(png(6_000_000, 1)))))
  const file = sent({ type: 'input_file', filename: 'a', file_data: png(6_000_000, 3).split(',')[1] })
  hashOf(file)
  const begun = performance.now()
  // Read anew each time, these are 24 GB.
  for (let n = 0; n < 1000; n++) for (const item of [one, other, file]) hashOf(item)
  expect(performance.now() - begun).toBeLessThan(3000)
})
