// What a peer is: another server of the Responses API that is put in front of the same engine, and what it can do.

/** How a client says the turns of a task: everything again or only what is new, by HTTP or over a socket. */
export const ways = ['http-full', 'http-previous', 'ws-full', 'ws-previous'] as const
export type Way = (typeof ways)[number]

export type Peer = {
  /** As `--peer` takes it. */
  readonly name: string
  /** One line: what it is and how it is set up here. */
  readonly what: string
  /** The command with which a person installs it; empty where there is nothing to install. */
  readonly install: string
  /** What it asks the engine for. */
  readonly asks: 'chat' | 'responses'
  /** Those that it is made for, as it is set up here. */
  readonly ways: readonly Way[]
  /** What it cannot do here, and why; said in the report. */
  readonly lacks?: string
  /** Undefined: it can be started. Else why not. */
  available(): Promise<string | undefined>
  /** As the installed program says it. */
  version(): Promise<string>
  /** On a free port of the loopback, with a data folder of its own. Throws an Error with its last lines if it does not serve. */
  start(options: StartOptions): Promise<Started>
}
export type StartOptions = {
  /** Base URL of the engine that it asks, `…/v1`. */
  readonly engineUrl: string
  readonly model: string
}
export type Started = {
  /** Base URL, `…/v1`. */
  readonly url: string
  readonly key?: string
  /** Of every request. */
  readonly headers?: Readonly<Record<string, string>>
  stop(): Promise<void>
}
