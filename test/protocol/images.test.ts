// Images and files of a request: what passes, what each bad one gets, and that nothing sent is repeated in a message.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ApiError } from '../../src/protocol/errors.ts'
import { checkFile, checkImage, decodeDataUrl, imageType, maxImageBytes } from '../../src/protocol/images.ts'

const heads = {
  'image/png': Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
  'image/jpeg': Buffer.from('\xff\xd8\xff\xe0', 'latin1'),
  'image/gif': Buffer.from('GIF89a'),
  'image/webp': Buffer.from('RIFF\x10\0\0\0WEBPVP8 ', 'latin1'),
} as const
const url = (bytes: Buffer, type = 'image/png') => `data:${type};base64,${bytes.toString('base64')}`
const image = (extra: Uint8Array | number) =>
  Buffer.concat([heads['image/png'], typeof extra === 'number' ? Buffer.alloc(extra, 7) : extra])
const refusal = (run: () => void): ApiError | undefined => {
  try {
    run()
    return undefined
  } catch (e) {
    if (e instanceof ApiError) return e
    throw e
  }
}
const codeOf = (sent: string) => refusal(() => checkImage(sent, 'input.0.content.0.image_url'))?.code

describe('checkImage', () => {
  it('takes PNG, JPEG, GIF and WebP of any length, whatever type the URL claims', () => {
    for (const [type, head] of Object.entries(heads))
      for (const length of [0, 1, 2, 3, 1000, 49_151, 49_152, 49_153, 98_304, 200_000]) {
        const bytes = Buffer.concat([head, Buffer.alloc(length, 0xfb)])
        const sent = url(bytes, 'application/octet-stream')
        // The standard alphabet's + and / are in there.
        expect(codeOf(sent)).toBeUndefined()
        const decoded = decodeDataUrl(sent)
        expect(decoded?.type).toBe(type)
        expect(decoded?.bytes.equals(bytes)).toBe(true)
      }
  })
  it('takes parameters in the head of the URL', () => {
    expect(codeOf(`data:image/png;charset=utf-8;base64,${image(5).toString('base64')}`)).toBeUndefined()
  })
  it('agrees with the definition of base64 on any text', () => {
    const chars = fc.constantFrom(...'ABCabc019+/=-_ \n%é'.split(''))
    const definition = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/
    const head = heads['image/png'].toString('base64').slice(0, 8)
    fc.assert(
      fc.property(fc.string({ unit: chars, maxLength: 12 }), (tail) => {
        const data = `${head}Chor${tail}`
        const code = codeOf(`data:image/png;base64,${data}`)
        expect(code === 'invalid_base64_image').toBe(!definition.test(data))
      }),
      { numRuns: 3000 },
    )
  })
  it('finds one wrong character anywhere in a large image', () => {
    const good = url(image(300_000))
    for (const at of [30, 1000, 65_535 + 22, 65_536 + 22, 65_537 + 22, 200_000, good.length - 1])
      for (const bad of ['!', '=', '-', ' '])
        if (!(at === good.length - 1 && bad === '='))
          expect(codeOf(good.slice(0, at) + bad + good.slice(at + 1)), `${bad} at ${at}`).toBe('invalid_base64_image')
  })
  it('refuses web addresses, other schemes and garbage as invalid_image_url', () => {
    for (const sent of [
      'http://127.0.0.1/a.png',
      'HTTPS://x.example/a',
      'ftp://x/a',
      'file:///etc/passwd',
      '',
      'garbage',
      ' http://x',
      'data:',
      'data:image/png',
      'data:image/png,AAAA',
      'data:;base64,AAAA',
      'data:image/png;base64',
      `data:image/png;${'a=b;'.repeat(100)}base64,AAAA`,
    ])
      expect(codeOf(sent), sent.slice(0, 30)).toBe('invalid_image_url')
    expect(refusal(() => checkImage('https://x.example/a', 'p'))?.message).toContain('not fetched')
  })
  it('refuses what is no image', () => {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from('hello world'),
      Buffer.from('<svg/>'),
      Buffer.from('RIFF\x10\0\0\0WAVEfmt '),
      Buffer.from('%PDF-1.7'),
    ])
      expect(codeOf(url(bytes))).toBe('invalid_image')
  })
  it('refuses images over the limit, and takes one at the limit', () => {
    const head = heads['image/png']
    const at = url(Buffer.concat([head, Buffer.alloc(maxImageBytes - head.length)]))
    expect(codeOf(at)).toBeUndefined()
    expect(codeOf(url(Buffer.concat([head, Buffer.alloc(maxImageBytes - head.length + 1)])))).toBe('image_too_large')
  })
  it('names the place and never repeats what was sent', () => {
    for (const sent of [
      'https://secret.example/x',
      'data:image/png;base64,c2VjcmV0',
      'data:image/png;base64,secret!!',
      'secret',
    ]) {
      const error = refusal(() => checkImage(sent, 'input.0.content.2.image_url'))
      expect(error?.param).toBe('input.0.content.2.image_url')
      expect(error?.message).not.toMatch(/secret|c2Vj/)
    }
  })
  it('costs little for a large image', () => {
    const large = url(image(6_500_000))
    const best = Math.min(
      ...[1, 2, 3, 4].map(() => {
        const start = performance.now()
        checkImage(large, 'p')
        return performance.now() - start
      }),
    )
    expect(best).toBeLessThan(60)
  })
})

describe('checkFile', () => {
  it('takes a data URL of any kind and plain base64', () => {
    const data = Buffer.from('%PDF-1.7 …').toString('base64')
    for (const sent of [`data:application/pdf;base64,${data}`, data, ''])
      expect(refusal(() => checkFile(sent, 'p'))).toBeUndefined()
  })
  it('refuses web addresses, broken base64 and too much of it', () => {
    expect(refusal(() => checkFile('data:application/pdf;base64,a', 'p'))?.code).toBe('invalid_request')
    expect(refusal(() => checkFile('https://x.example/a.pdf', 'p'))?.code).toBe('invalid_request')
    expect(refusal(() => checkFile('data:application/pdf,abc', 'p'))?.code).toBe('invalid_image_url')
    expect(refusal(() => checkFile('A'.repeat(Math.ceil(maxImageBytes / 3) * 4 + 4), 'p'))?.message).toContain('50 MiB')
  })
})

describe('decodeDataUrl', () => {
  it('gives nothing for what is no base64 data URL', () => {
    for (const sent of ['https://x.example/a', 'data:text/plain,a', 'a']) expect(decodeDataUrl(sent)).toBeUndefined()
  })
  it('gives a file its claimed type', () => {
    expect(decodeDataUrl(url(Buffer.from('%PDF'), 'Application/PDF'))).toEqual({
      type: 'application/pdf',
      bytes: Buffer.from('%PDF'),
    })
  })
})

describe('imageType', () => {
  it('needs the whole mark', () => {
    for (const head of Object.values(heads)) expect(imageType(head.subarray(0, 2))).toBeUndefined()
  })
})
