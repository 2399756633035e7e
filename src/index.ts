// The server as a library: what `continuo serve` is made of. The client library is `continuo/client`.
export { startApp, type App, type Ports } from './app.ts'
export { ConfigError, loadConfig, type Config, type Flags, type Loaded } from './config.ts'
export { createLog, type Logger } from './observe/log.ts'
export { ApiError, errorTable, type ErrorCode } from './protocol/errors.ts'
export type { Classifier, Engine, Ledger, Outlet, Store } from './turn/ports.ts'
export { version } from './version.ts'
