import { describe, expect, it } from 'vitest'
import { downloads, progressBar, type Screen } from '../../src/cli/progress.ts'

function screen(isTTY: boolean, columns = 60): Screen & { text: string } {
  return {
    isTTY,
    columns,
    text: '',
    write(text: string) {
      this.text += text
    },
  }
}

describe('a download', () => {
  it('is a bar on a terminal, drawn over at most ten times a second and whole at the end', () => {
    const shown = screen(true)
    let now = 1000
    const { onProgress, end } = downloads(shown, undefined, () => now)
    for (let n = 0; n <= 1000; n++, now++) onProgress('org/model/x.gguf', n * 1e6, 1e9)
    const lines = shown.text.split('\r').slice(1)
    expect(lines.length).toBeLessThanOrEqual(12)
    for (const line of lines) expect(line.replace('\u001b[K', '').trimEnd().length).toBeLessThan(60)
    expect(lines[5]).toMatch(/^…?[\w./]+ \[█+░+\] \d+(\.\d)? of 1000 MB \(50 %\)/)
    expect(lines.at(-1)).toContain('[████████████████████████] 1000 of 1000 MB (100 %)')
    end()
    expect(shown.text.match(/\n/g)).toHaveLength(1)
  })
  it('that breaks off leaves the next words a line of their own', () => {
    const shown = screen(true)
    const { onProgress, end } = downloads(shown)
    onProgress('a/b/tokenizer.json', 1e6, undefined)
    end()
    end()
    expect(shown.text).toBe('\ra/b/tokenizer.json 1.0 MB\u001b[K\n')
  })
  it('is a line every five seconds elsewhere, and one at its end', () => {
    const shown = screen(false)
    const lines: string[] = []
    let now = 0
    const { onProgress, end } = downloads(
      shown,
      (text) => lines.push(text),
      () => now,
    )
    for (let n = 1; n <= 12; n++, now += 1000) onProgress('x.gguf', n * 1e7, 12e7)
    onProgress('small.json', 2e4, 2e4)
    end()
    expect(shown.text).toBe('')
    expect(lines).toEqual([
      'downloading x.gguf: 60.0 of 120 MB (50 %)',
      'downloading x.gguf: 110 of 120 MB (91 %)',
      'downloading x.gguf: 120 of 120 MB (100 %)',
      'downloading small.json: 20.0 of 20.0 kB (100 %)',
    ])
  })
})

describe('a measurement', () => {
  it('is a bar on a terminal that fits its line and is wiped away at the end', () => {
    const shown = screen(true)
    let now = 1000
    const { onProgress, end } = progressBar(shown, () => now)
    for (let n = 0; n <= 1000; n++, now++) onProgress(n / 1000, 'WebSocket with previous_response_id at 4,000 tokens/s')
    const lines = shown.text.split('\r').slice(1)
    expect(lines.length).toBeLessThanOrEqual(12)
    for (const line of lines) expect(line.replace('\u001b[K', '').length).toBeLessThan(60)
    expect(lines[5]).toMatch(/^\[█+░+\] 50 % WebSocket with/)
    end()
    expect(shown.text.endsWith('\r\u001b[K')).toBe(true)
  })
  it('is a line every 15 seconds elsewhere, whatever share it is told', () => {
    const shown = screen(false)
    let now = 0
    const { onProgress, end } = progressBar(shown, () => now)
    for (const share of [0, NaN, 0.4, 7]) {
      onProgress(share, 'turns')
      now += 10_000
    }
    end()
    expect(shown.text).toBe('40 % turns\n')
  })
})
