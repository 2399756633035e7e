// `npm run bench:turn`: what the server adds to one turn of a tool loop, against the length of the conversation. Three
// ways to say the same turn: a delta over the socket, everything again over the socket, everything again over HTTP.
import { Agent, request } from 'node:http'
import { Command } from 'commander'
import { machine, main, median, Progress, report, shown, spread, type Spread, table, whole } from './figures.ts'
import { hottest } from './profile.ts'
import { serveApart, type Served } from './served.ts'
import { outputOf, Reading, settings, Talk, type Turn, userMessage } from './talk.ts'

type Options = { tokens: number[]; repeats: number; turns: number; profile?: true; json?: true }
const program = new Command('turn')
  .description(
    'time the server adds to a turn, by the length of the conversation; the simulated engine takes next to none',
  )
  .option(
    '--tokens <list>',
    'lengths of the conversation in tokens, estimated',
    (text: string) => text.split(',').map(whole),
    [1000, 10_000, 100_000],
  )
  .option('--repeats <n>', 'measurements of each way, interleaved', whole, 7)
  .option('--turns <n>', 'turns a measurement', whole, 20)
  .option('--profile', 'deltas only, at the longest conversation, with a CPU profile of the server')
  .option('--json', 'print one JSON object')
program.parse()
const options = program.opts<Options>()

const ways = ['delta, socket', 'full, socket', 'full, HTTP'] as const
type Way = (typeof ways)[number]
/** A conversation that the server knows, and all of its items for a client that sends everything. */
type Known = { readonly tokens: number; readonly talk: Talk; readonly last: Turn; readonly history: readonly object[] }

/** 500 tokens, as four characters make one. */
const listing = 'drwxr-xr-x 2 agent agent 4096 some-folder-of-the-project\n'.repeat(36).slice(0, 2000)
/** The lane that keeps the conversation alive; turns that are measured fork from it, so that it does not grow. */
const kept = 'kept'

/** Grows a conversation as an agent does: call by call, all but the newest item known to the server. */
async function grow(server: Served, tokens: number): Promise<Known> {
  const talk = await Talk.open(server.wsUrl)
  const task = userMessage('Look around and tell me what this is.')
  const history: object[] = [task]
  let last = await talk.turn({ store: false, stream_id: kept, input: [task] })
  history.push(...last.items)
  for (let n = 1; n < tokens / 500; n++) {
    const output = last.calls.map((call) => outputOf(call, listing))
    last = await talk.turn({ store: false, stream_id: kept, previous_response_id: last.id, input: output })
    history.push(...output, ...last.items)
  }
  return { tokens, talk, last, history }
}

/** One turn; resolves to its milliseconds, from the request made (not yet serialised) to the terminal event read. */
async function turn(way: Way, known: Known, server: Served, agent: Agent): Promise<number> {
  const { talk, last, history } = known
  const output = last.calls.map((call) => outputOf(call, `${listing}${process.hrtime.bigint()}`))
  const begun = performance.now()
  if (way === 'delta, socket') await talk.turn({ store: false, previous_response_id: last.id, input: output })
  else if (way === 'full, socket') await talk.turn({ store: false, input: [...history, ...output] })
  else await overHttp(server.url, agent, { ...settings, store: false, input: [...history, ...output] })
  return performance.now() - begun
}

/** POST and server-sent events on a connection that is kept. */
function overHttp(url: string, agent: Agent, body: object): Promise<Turn> {
  return new Promise((resolve, reject) => {
    const text = JSON.stringify(body)
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    const post = request(`${url}/v1/responses`, { method: 'POST', agent, headers }, (answer) => {
      if (answer.statusCode !== 200) reject(new Error(`HTTP ${answer.statusCode}`))
      const reading = new Reading()
      let [rest, turn] = ['', undefined as Turn | undefined]
      answer.setEncoding('utf8')
      answer.on('data', (part: string) => {
        const lines = (rest + part).split('\n')
        rest = lines.pop() ?? ''
        try {
          for (const line of lines) if (line.startsWith('data: ')) turn ??= reading.take(line.slice(6))
        } catch (e) {
          reject(e instanceof Error ? e : new Error(String(e)))
        }
      })
      answer.on('end', () => (turn ? resolve(turn) : reject(new Error('the stream ended without a terminal event'))))
    })
    post.on('error', reject)
    post.end(text)
  })
}

async function compare(server: Served): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const known: Known[] = []
  for (const tokens of options.tokens) known.push(await grow(server, tokens))
  const progress = new Progress((options.repeats + 1) * known.length * ways.length)
  const medians = new Map<string, number[]>()
  // The first pass warms the server up and is not counted.
  for (let pass = 0; pass <= options.repeats; pass++)
    for (const one of known)
      for (const way of ways) {
        const ms: number[] = []
        for (let n = 0; n < options.turns; n++) ms.push(await turn(way, one, server, agent))
        const name = `${way} ${one.tokens}`
        if (pass > 0) medians.set(name, [...(medians.get(name) ?? []), median(ms)])
        progress.step(name)
      }
  progress.end()
  for (const { talk } of known) await talk.close()
  agent.destroy()

  const of = (way: Way, tokens: number): number[] => medians.get(`${way} ${tokens}`) ?? []
  /** Of measurements that were made one after the other, so that a busy moment of the machine hits both. */
  const ratio = (above: readonly number[], below: readonly number[]): Spread =>
    spread(above.map((n, i) => n / (below[i] ?? NaN)))
  const shortest = options.tokens[0] ?? 0
  const rows = options.tokens.map((tokens) => ({
    tokens,
    ms: Object.fromEntries(ways.map((way) => [way, spread(of(way, tokens))])),
    fullSocketToDelta: ratio(of('full, socket', tokens), of('delta, socket', tokens)),
    fullHttpToDelta: ratio(of('full, HTTP', tokens), of('delta, socket', tokens)),
    deltaToShortest: ratio(of('delta, socket', tokens), of('delta, socket', shortest)),
  }))
  const lines = rows.map((r) => [
    String(r.tokens),
    ...ways.map((way) => (r.ms[way] ? shown(r.ms[way]) : '')),
    ...[r.fullSocketToDelta, r.fullHttpToDelta, r.deltaToShortest].map(shown),
  ])
  const head = [
    'tokens',
    ...ways.map((way) => `${way}: ms`),
    'full socket ÷ delta',
    'full HTTP ÷ delta',
    `delta ÷ delta at ${shortest}`,
  ]
  const facts = machine()
  report(
    options.json === true,
    { machine: facts, options, rows },
    [
      Object.entries(facts)
        .map(([k, v]) => `${k} ${v}`)
        .join(' · '),
      `medians of ${options.repeats} measurements of ${options.turns} turns each, interleaved; [least–most]`,
      '',
      table(head, lines),
    ].join('\n'),
  )
  return 0
}

async function profile(server: Served): Promise<number> {
  const longest = Math.max(...options.tokens)
  const known = await grow(server, longest)
  const agent = new Agent()
  const turns = options.repeats * options.turns * 10
  const progress = new Progress(turns)
  for (let n = 0; n < turns; n++) {
    await turn('delta, socket', known, server, agent)
    progress.step('deltas')
  }
  progress.end()
  await known.talk.close()
  await server.stop()
  const all = server.profiles().flatMap(hottest)
  const ours = all.filter((f) => f.ours).slice(0, 20)
  const rows = (of: typeof all): string[][] =>
    of.map((f) => [`${(f.share * 100).toFixed(1)} %`, `${((f.ms * 1000) / turns).toFixed(1)}`, f.name, f.place])
  const head = ['share', 'µs a turn', 'function', 'place']
  const others = all.filter((f) => !f.ours).slice(0, 15)
  report(
    options.json === true,
    { machine: machine(), options, turns, ours, others },
    [
      `${turns} deltas at ${longest} tokens; own time, start-up included`,
      '',
      table(head, rows(ours)),
      '',
      table(head, rows(others)),
    ].join('\n'),
  )
  return 0
}

await main(async () => {
  const engines = { simulated: { type: 'simulated', rounds: 10_000 } }
  const server = await serveApart({ config: { engines, store: { kind: 'memory' } }, profile: options.profile === true })
  try {
    return await (options.profile ? profile(server) : compare(server))
  } finally {
    await server.stop()
    server.remove()
  }
})
