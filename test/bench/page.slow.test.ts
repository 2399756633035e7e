// The page of a report in a real browser: it opens from a file, asks nobody for anything, and its plots are there.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { chromium, type Browser, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reportHtml } from '../../src/bench/report-html.ts'
import { readReport } from '../../src/bench/report-json.ts'
import type { Report } from '../../src/bench/report.ts'
import { chromiumPath } from './chromium.ts'
import { sample } from './sample.ts'

const path = chromiumPath()
const inCi = !['', '0', 'false', undefined].includes(process.env['CI'])
const sizes = { desktop: { width: 1200, height: 900 }, phone: { width: 390, height: 844 } }

/** One for each canvas: its size on the page, and how many of its pixels are painted. */
const canvases = `[...document.querySelectorAll('.uplot canvas')].map((canvas) => {
  const { width, height } = canvas.getBoundingClientRect()
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
  let painted = 0
  for (let n = 3; n < data.length; n += 4) if (data[n] > 0) painted++
  return { width, height, painted, pixels: data.length / 4 }
})`
type Canvas = { width: number; height: number; painted: number; pixels: number }

describe.skipIf(path === undefined && !inCi)(
  'the page of a report, in Chromium (skipped without one; CHROMIUM=path names it)',
  () => {
    const folder = mkdtempSync(join(tmpdir(), 'continuo-page-'))
    let browser: Browser
    beforeAll(async () => {
      if (path === undefined) throw new Error('There is no Chromium; install one, or name it with CHROMIUM=path.')
      browser = await chromium.launch({ executablePath: path, args: ['--no-sandbox', '--disable-gpu'] })
    })
    afterAll(async () => {
      await browser?.close()
      rmSync(folder, { recursive: true, force: true })
    })

    type Opened = { page: Page; complaints: string[]; requests: string[]; [Symbol.asyncDispose](): Promise<void> }
    async function open(
      reports: readonly Report[],
      size: keyof typeof sizes,
      colorScheme: 'light' | 'dark',
    ): Promise<Opened> {
      const file = join(folder, 'report.html')
      writeFileSync(file, reportHtml(reports))
      const page = await browser.newPage({ viewport: sizes[size], colorScheme })
      const complaints: string[] = []
      const requests: string[] = []
      page.on('console', (message) => {
        // About these tests, which read what is drawn.
        if (!message.text().includes('willReadFrequently')) complaints.push(message.text())
      })
      page.on('pageerror', (error) => complaints.push(error.message))
      page.on('dialog', (dialog) => (complaints.push(dialog.message()), void dialog.dismiss()))
      page.on('request', (request) => requests.push(request.url()))
      await page.goto(pathToFileURL(file).href)
      return { page, complaints, requests, [Symbol.asyncDispose]: () => page.close() }
    }

    it.each([
      ['desktop', 'light'],
      ['desktop', 'dark'],
      ['phone', 'light'],
      ['phone', 'dark'],
    ] as const)('draws every plot on a %s in %s, complains of nothing and asks for nothing', async (size, scheme) => {
      await using opened = await open([sample, sample], size, scheme)
      const { page, complaints, requests } = opened
      const seen: Canvas[] = await page.evaluate(canvases)
      expect(seen).toHaveLength(2 * sample.plots.length)
      for (const { width, height, painted, pixels } of seen) {
        expect(width).toBeGreaterThan(250)
        expect(height).toBeGreaterThan(200)
        // Axes alone paint less; a page that is painted all over shows no plot either.
        expect(painted / pixels).toBeGreaterThan(0.02)
        expect(painted / pixels).toBeLessThan(0.9)
      }
      expect(complaints).toEqual([])
      expect(requests.map((url) => new URL(url).protocol)).toEqual(['file:'])
      // Nothing but what scrolls by itself is wider than the screen.
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(sizes[size].width)
      const ground: string = await page.evaluate('getComputedStyle(document.body).backgroundColor')
      expect(ground).toBe(scheme === 'dark' ? 'rgb(17, 20, 23)' : 'rgb(251, 251, 250)')
    })

    it('follows the theme of the reader, with new colours on the canvas', async () => {
      await using opened = await open([sample], 'desktop', 'light')
      const { page } = opened
      const picture = "document.querySelector('.uplot canvas').toDataURL()"
      const light: string = await page.evaluate(picture)
      await page.emulateMedia({ colorScheme: 'dark' })
      await page.waitForFunction(`${picture} !== ${JSON.stringify(light)}`)
      expect(await page.evaluate('document.documentElement.dataset.theme')).toBe('dark')
    })

    it('hides and shows a series by its name, and says what stands under the pointer', async () => {
      await using opened = await open([sample], 'desktop', 'light')
      const { page, complaints } = opened
      const first = page.locator('.plot').first()
      const painted = async (): Promise<number> => {
        const all: Canvas[] = await page.evaluate(canvases)
        return all[0]?.painted ?? 0
      }
      const before = await painted()
      const button = first.getByRole('button', { name: 'rollout' })
      await button.click()
      expect(await button.getAttribute('aria-pressed')).toBe('false')
      expect(await painted()).toBeLessThan(before)
      await first.locator('.u-over').hover()
      const tip = first.locator('.tip')
      const told = await tip.textContent()
      expect(told).toMatch(/^tokens in the conversation [\d,]+/)
      expect(told).toContain('WebSocket lean')
      expect(told).not.toContain('rollout')
      await button.click()
      expect(await painted()).toBe(before)
      expect(complaints).toEqual([])
    })

    it('says of a bar what it is', async () => {
      await using opened = await open([sample], 'desktop', 'light')
      const plot = opened.page.locator('.plot').nth(3)
      await plot.locator('.u-over').hover()
      expect(await plot.locator('.tip').textContent()).toBe('conversation of 10k tokensKiB 220')
      // A single series needs no legend.
      expect(await plot.locator('.legend').isVisible()).toBe(false)
    })

    it('hands its results out as a file that reads back equal', async () => {
      await using opened = await open([sample], 'desktop', 'light')
      const download = opened.page.waitForEvent('download')
      await opened.page.getByRole('button', { name: 'Save these results' }).click()
      const file = await download
      expect(file.suggestedFilename()).toBe('continuo-bench-loop-rates-65-1000-4000-2026-11-30.json')
      const saved = await file.path()
      expect(readReport(readFileSync(saved, 'utf8'), 'saved')).toEqual(sample)
    })

    it('stands when there is nothing to draw, and when numbers are none', async () => {
      const empty: Report = {
        ...sample,
        plots: [
          { title: 'no series', kind: 'lines', x: { label: 'x', values: [1, 2] }, y: { label: 'y' }, series: [] },
          {
            title: 'no x',
            kind: 'bars',
            x: { label: 'x', values: [] },
            y: { label: 'y' },
            series: [{ name: 'a', values: [] }],
          },
          {
            title: 'no number on a logarithmic scale',
            kind: 'lines',
            x: { label: 'x', log: true, values: [0, -1, NaN] },
            y: { label: 'y', log: true },
            series: [{ name: 'a', values: [0, null, -1] }],
          },
          {
            title: 'one point',
            kind: 'lines',
            x: { label: 'x', values: [5] },
            y: { label: 'y' },
            series: [{ name: 'a', values: [-3], low: [-4], high: [-2] }],
          },
        ],
      }
      await using opened = await open([empty], 'desktop', 'light')
      const seen: Canvas[] = await opened.page.evaluate(canvases)
      expect(seen).toHaveLength(4)
      expect(opened.complaints).toEqual([])
    })
  },
)
