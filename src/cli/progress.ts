// How it is shown that something takes its time, a download or a measurement: a bar on a terminal, elsewhere a line now and
// then. Writes to stderr, where the log goes, so that what a command prints stays whole.
import type { Told } from '../registry-codecs.ts'

export type Screen = {
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
  write(text: string): unknown
}
export type Downloads = {
  readonly onProgress: NonNullable<Told['onProgress']>
  /** Nothing more comes: what is written next begins on a line of its own. */
  end(): void
}
const drawMs = 100
const lineMs = 5_000
const barWidth = 24

/** `line` is given what stands in for the bar where there is no terminal; default: it is written to the screen. */
export function downloads(
  screen: Screen,
  line = (text: string): void => void screen.write(`${text}\n`),
  now: () => number = Date.now,
): Downloads {
  let current: string | undefined
  let last = 0
  let open = false
  const end = (): void => {
    if (open) screen.write('\n')
    open = false
    current = undefined
  }
  return {
    end,
    onProgress: (file, bytes, total) => {
      const time = now()
      if (file !== current) {
        end()
        current = file
        // A bar stands at once; a file that is there in a few seconds needs no lines but its last.
        last = screen.isTTY === true ? 0 : time
      }
      const whole = bytes === total
      if (!whole && time - last < (screen.isTTY === true ? drawMs : lineMs)) return
      last = time
      if (screen.isTTY !== true) line(`downloading ${file}: ${amount(bytes, total)}`)
      else {
        open = true
        screen.write(`\r${drawn(file, bytes, total, screen.columns || 80)}\u001b[K`)
      }
      if (whole) end()
    },
  }
}

/** At most `columns - 1` characters: a line that wraps could not be drawn over. */
function drawn(file: string, bytes: number, total: number | undefined, columns: number): string {
  const done = total === undefined || total === 0 ? undefined : Math.min(1, bytes / total)
  const bar = done === undefined ? '' : `${barOf(done)} `
  const tail = ` ${bar}${amount(bytes, total)}`
  const room = columns - 1 - tail.length
  // Of a long name the end tells most.
  const name = file.length <= room ? file : room < 2 ? '' : `…${file.slice(1 - room)}`
  return `${name}${tail}`.slice(0, Math.max(0, columns - 1))
}
function barOf(share: number): string {
  const full = Math.floor(share * barWidth)
  return `[${'█'.repeat(full)}${'░'.repeat(barWidth - full)}]`
}
function amount(bytes: number, total: number | undefined): string {
  const [scale, unit] = (total || bytes) < 1e6 ? [1e3, 'kB'] : [1e6, 'MB']
  const size = (n: number): string => (n / scale).toFixed(n / scale < 100 ? 1 : 0)
  if (total === undefined || total === 0) return `${size(bytes)} ${unit}`
  return `${size(bytes)} of ${size(total)} ${unit} (${Math.floor((bytes / total) * 100)} %)`
}

export type Bar = {
  /** `share` from 0 to 1; `what` is under way. */
  readonly onProgress: (share: number, what: string) => void
  /** Nothing more comes; a bar is wiped away. */
  end(): void
}
const quietMs = 15_000

/** Of a measurement. Where there is no terminal, a line every 15 seconds, for a log that somebody waits at. */
export function progressBar(screen: Screen, now: () => number = Date.now): Bar {
  let last = screen.isTTY === true ? 0 : now()
  let open = false
  return {
    onProgress: (given, what) => {
      const share = Math.min(1, Math.max(0, given || 0))
      const time = now()
      if (time - last < (screen.isTTY === true ? drawMs : quietMs)) return
      last = time
      const percent = `${Math.floor(share * 100)} %`
      if (screen.isTTY !== true) {
        screen.write(`${percent} ${what}\n`)
        return
      }
      open = true
      screen.write(`\r${`${barOf(share)} ${percent} ${what}`.slice(0, (screen.columns || 80) - 1)}\u001b[K`)
    },
    end: () => {
      if (open) screen.write('\r\u001b[K')
      open = false
    },
  }
}
