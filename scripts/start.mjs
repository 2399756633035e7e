// `npm start [-- options of continuo serve]`, `npm run bench -- loop --quick`: installs and builds what is missing, then runs
// that command in this same process, so that signals, exit codes and the terminal are its own.
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { build, ready, root } from './prepare.mjs'

const parent = process.ppid
ready()
build()

// A signal sent to npm ends npm and its shell but reaches nobody below them: their end is then the signal.
if (['start', 'bench'].includes(process.env.npm_lifecycle_event)) {
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
process.argv = [process.argv[0], program, ...process.argv.slice(2)]
await import(pathToFileURL(program).href)
