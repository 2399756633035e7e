// A CPU profile of the server, read: which functions took the time, by their own share of it.

export type Hot = {
  readonly name: string
  readonly place: string
  readonly ours: boolean
  readonly ms: number
  readonly share: number
}
type Node = { id: number; callFrame: { functionName: string; url: string; lineNumber: number } }
type Profile = { nodes: Node[]; samples: number[]; timeDeltas: number[] }

/** Functions by self time, most first. `json`: what `node --cpu-prof` writes. Idle time is left out. */
export function hottest(json: string): Hot[] {
  // Written by Node itself.
  const { nodes, samples, timeDeltas } = JSON.parse(json) as Profile
  const self = new Map<number, number>()
  for (const [n, id] of samples.entries()) self.set(id, (self.get(id) ?? 0) + (timeDeltas[n] ?? 0))
  const functions = new Map<string, { name: string; place: string; ours: boolean; us: number }>()
  for (const { id, callFrame } of nodes) {
    const { functionName, url, lineNumber } = callFrame
    if (functionName === '(idle)') continue
    const ours = url.includes('/dist/') && !url.includes('/node_modules/')
    const place =
      url === '' ? '' : `${url.replace(/^.*\/(dist|node_modules)\//, ours ? 'dist/' : '')}:${lineNumber + 1}`
    const name = functionName || '(anonymous)'
    const entry = functions.get(`${name} ${place}`) ?? { name, place, ours, us: 0 }
    entry.us += self.get(id) ?? 0
    functions.set(`${name} ${place}`, entry)
  }
  const total = [...functions.values()].reduce((sum, f) => sum + f.us, 0)
  return [...functions.values()]
    .map(({ us, ...f }) => ({ ...f, ms: us / 1000, share: us / total }))
    .sort((a, b) => b.ms - a.ms)
}
