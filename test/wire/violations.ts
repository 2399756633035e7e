// What the oracles found since the last test. Whoever loads this file inside a test run fails the test that is going on.

const found: string[] = []

/** How a violation shows in the log of a process that is no test (tap.ts). */
export const mark = 'WIRE VIOLATION'

export function violation(problems: readonly string[], frame: unknown): void {
  if (problems.length === 0 || found.length > 20) return
  found.push(`${problems.join('; ')}\n    ${(typeof frame === 'string' ? frame : JSON.stringify(frame)).slice(0, 600)}`)
}
/** Takes what was found, so that the next test begins clean. */
export const takeViolations = (): string[] => found.splice(0)

if (process.env['VITEST'] !== undefined) {
  const { afterEach } = await import('vitest')
  afterEach(() => {
    const problems = takeViolations()
    if (problems.length > 0) throw new Error(`The server sent what it must not send:\n  ${problems.join('\n  ')}`)
  })
}
