// `npm start [-- options of continuo serve]`: installs and builds what is missing, then serves in this same process, so
// that signals, exit codes and the terminal are the server's own.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, ready, root } from './prepare.mjs'

const parent = process.ppid
ready()
build()

// A signal sent to npm ends npm and its shell but reaches nobody below them: their end is then the signal.
if (process.env.npm_lifecycle_event === 'start') {
  const watch = setInterval(() => {
    if (process.ppid === parent) return
    clearInterval(watch)
    process.kill(process.pid, 'SIGTERM')
  }, 250)
  watch.unref()
  // One signal is enough: a second one would tell the server to drop what it is finishing.
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      clearInterval(watch)
      if (process.listenerCount(signal) === 0) process.exit(143) // The server is not there yet.
    })
  }
}

const program = join(root, 'dist/cli/main.js')
process.argv = [process.argv[0], program, 'serve', ...process.argv.slice(2)]
await import(pathToFileURL(program).href)
