// The server, put together: from a configuration to open doors, and down again.
import { mkdir } from 'node:fs/promises'
import { createServer, type ServerOptions } from 'node:http'
import { join } from 'node:path'
import { fastify } from 'fastify'
import { keyring } from './access/keys.ts'
import { countingLedger, type CountingLedger } from './access/ledger.ts'
import { memorySeal, openSeal } from './access/seal.ts'
import type { Config } from './config.ts'
import type { Logger } from './observe/log.ts'
import { ApiError } from './protocol/errors.ts'
import { knownTools } from './protocol/known-tools.ts'
import { parseTools } from './protocol/parse-tools.ts'
import { createModels, createStore, type Models } from './registry.ts'
import type { Told } from './registry-codecs.ts'
import { Live } from './session/live.ts'
import type { Doors } from './transports/doors.ts'
import { refusePath, serveHttp } from './transports/http.ts'
import { Sockets } from './transports/ws.ts'
import type { Classifier, Store } from './turn/ports.ts'
import { PrefixIndex } from './turn/prefix-index.ts'
import { Settle } from './turn/settle.ts'
import { Shadow } from './turn/shadow.ts'
import { Tls, tlsFiles } from './tls.ts'
import { version } from './version.ts'

export type App = {
  readonly scheme: 'http' | 'https'
  readonly host: string
  readonly port: number
  readonly models: Models
  readonly ledger: CountingLedger
  /** What holds memory or waits, for tests and health pages. */
  counts(): {
    sockets: number
    running: number
    heldBytes: number
    logBytes: number
    unsettled: number
    prefixBytes: number
    prefixBreaks: number
    shadowChecks: number
    shadowMismatches: number
    unknownFrames: number
  }
  /** Takes nothing new, lets what runs finish (at most `limits.drainMs`), then closes. */
  drain(): Promise<void>
  /** Closes now: running turns are cut, what was to be stored is written. */
  close(): Promise<void>
}

/** Plug-ins given by whoever embeds the server, in place of the configured ones. */
export type Ports = {
  readonly store?: Store
  readonly classifiers?: readonly Classifier[]
  /** Hears of files that are downloaded before the server is open. */
  readonly onProgress?: Told['onProgress']
}

export async function startApp(config: Config, log: Logger, ports: Ports = {}): Promise<App> {
  const { limits } = config
  if (config.store.kind === 'sqlite') await mkdir(config.data, { recursive: true, mode: 0o700 })
  const report = (err: unknown, what: string): void => log.error({ err }, what)
  const files = tlsFiles(config)
  const tls = files && (await Tls.open(files, (level, sentence) => log[level](sentence)))
  const store = ports.store ?? (await createStore(config, report))
  const models = await createModels(config, {
    note: (what, fields) => log.info(fields, what),
    onProgress: ports.onProgress,
  })
  const keys = keyring(config.keys)
  const ledger = countingLedger()
  const settle = new Settle(store, limits.unsettled, report)
  const live = new Live(limits.events)
  // Without caches nothing is kept from one request for the next; the rest of that is createModels.
  const index = new PrefixIndex(config.caches ? limits.prefixes : { ...limits.prefixes, keepBytes: 0 })
  let draining = false
  let breaks = 0
  const shadow = new Shadow(config.tokens.shadow, ({ at, item, ...rest }) =>
    log.error(
      { ...rest, token: at, item: item ?? -1 },
      'a conversation was rendered wrongly; it is rendered in full from now on',
    ),
  )

  const doors: Doors = {
    version,
    parseTools: config.caches ? knownTools : parseTools,
    limits,
    rollouts: config.rollouts,
    live,
    index,
    settle,
    ledger,
    models,
    report,
    model: (name) => models.resolve(name),
    shadow,
    broke: (response, owner, { at, item, why }) => {
      breaks++
      log.info({ response, owner, token: at, item: item ?? -1, why }, 'prefix broken')
    },
    classifiers: ports.classifiers ?? [],
    outputBytes: limits.outputBytes,
    conversationBytes: limits.conversationBytes,
    seal: config.store.kind === 'sqlite' ? await openSeal({ keyFile: join(config.data, 'seal.key') }) : memorySeal(),
    note: (what, fields) => log.info(fields, what),
    draining: () => draining,
    authenticate: (headers) => keys.authenticate(headers),
    authorise: (principal, model) => {
      if (!keys.valid(principal))
        throw new ApiError('invalid_api_key', 'The key of this connection is no longer valid.')
      if (!keys.allows(principal, model))
        throw new ApiError('permission_denied', `This key may not use the model '${model}'.`, 'model')
    },
    ready: async () => {
      if (draining) throw new Error('The server is about to stop.')
      await store.check()
    },
  }

  const http: ServerOptions = { headersTimeout: limits.http.headersMs, requestTimeout: 0, keepAliveTimeout: 75_000 }
  const server = fastify({
    bodyLimit: limits.http.maxBodyBytes,
    forceCloseConnections: 'idle',
    logger: false,
    serverFactory: (listener) => (tls ? tls.server(http, listener) : createServer(http, listener)),
    routerOptions: { maxParamLength: 256 },
    frameworkErrors: refusePath(version),
  })
  serveHttp(server, doors)
  const sockets = new Sockets(server.server, doors)
  try {
    await server.listen({ host: config.host, port: config.port })
  } catch (e) {
    sockets.close()
    live.close()
    index.close()
    tls?.close()
    await Promise.allSettled([server.close(), models.close(), store.close()])
    throw e
  }
  const address = server.server.address()

  let closed: Promise<void> | undefined
  const close = (): Promise<void> =>
    (closed ??= (async (): Promise<void> => {
      draining = true
      tls?.close()
      sockets.close()
      server.server.closeAllConnections()
      await server.close()
      await until(() => live.running === 0, closeMs)
      // A store that never answers must not keep the process.
      await Promise.race([settle.idle(), new Promise<void>((resolve) => setTimeout(resolve, closeMs).unref())])
      live.close()
      index.close()
      await models.close()
      await store.close()
    })())
  return {
    scheme: tls ? 'https' : 'http',
    host: config.host,
    port: typeof address === 'object' && address ? address.port : config.port,
    models,
    ledger,
    counts: () => ({
      sockets: sockets.size,
      running: live.running,
      heldBytes: sockets.heldBytes,
      logBytes: live.bytes,
      unsettled: settle.waiting,
      prefixBytes: index.bytes,
      prefixBreaks: breaks,
      shadowChecks: shadow.counts.checks,
      shadowMismatches: shadow.counts.mismatches,
      unknownFrames: sockets.unknownFrames,
    }),
    drain: async () => {
      draining = true
      // About 500 sockets a second come back without a stall elsewhere; fewer need no spreading.
      sockets.drain(Math.min(limits.drainMs / 2, (sockets.size / 500) * 1000))
      await until(() => live.running === 0 && sockets.size === 0, limits.drainMs)
      await close()
    },
    close,
  }
}

/** Longest that a close waits for turns to end, and for storage to be written. */
const closeMs = 10_000

/** Looks every few milliseconds whether it is so, for at most `limit` milliseconds. */
async function until(so: () => boolean, limit: number): Promise<void> {
  for (const end = Date.now() + limit; !so() && Date.now() < end;)
    await new Promise((resolve) => setTimeout(resolve, 20))
}
