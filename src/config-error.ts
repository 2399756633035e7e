// What a person reads who configured something wrongly: where it stands, what is wrong, what was probably meant.

export type Path = readonly (string | number)[]
/** `where` it was written (`continuo.yaml:12`, `PORT`, `--port`), if known, and what is wrong and what to do. */
export type Problem = { readonly path: Path; readonly message: string; readonly where?: string | undefined }

/** Something in the configuration keeps the server from starting. `message` has a line for every problem. */
export class ConfigError extends Error {
  readonly problems: readonly Problem[]
  constructor(problems: readonly Problem[]) {
    super(problems.map(line).join('\n'))
    this.name = 'ConfigError'
    this.problems = problems
  }
}
function line({ path, message, where }: Problem): string {
  return [where, path.length > 0 ? dotted(path) : undefined, message].filter((part) => part !== undefined).join(': ')
}
/** `engines.main.url`; names that hold dots or other signs are quoted. */
export function dotted(path: Path): string {
  return path.map((p) => (/^[\w-]+$/.test(String(p)) ? String(p) : JSON.stringify(p))).join('.')
}

/** `; did you mean "port"?` where a known name is near, else nothing. */
export function meant(name: string, known: readonly string[]): string {
  const near = nearest(name, known)
  return near === undefined ? '' : `; did you mean "${near}"?`
}

/** The known name that `name` may be a misspelling of. */
export function nearest(name: string, known: readonly string[]): string | undefined {
  const ranked = known
    .map((k) => ({ k, d: distance(name.toLowerCase().slice(0, 100), k.toLowerCase()) }))
    .sort((a, b) => a.d - b.d)
  const best = ranked[0]
  return best && best.d <= Math.max(2, Math.floor(best.k.length / 3)) ? best.k : undefined
}

/** Insertions, deletions and replacements between two short texts. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, n) => n)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++)
      next.push(
        Math.min((next[j - 1] ?? 0) + 1, (row[j] ?? 0) + 1, (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)),
      )
    row = next
  }
  return row[b.length] ?? 0
}
