// The store's thread: opens the database and does what it is asked, in the order in which it is asked. Ends when it is told
// to close.
import { parentPort, workerData } from 'node:worker_threads'
import { openRows } from './sql-rows.ts'
import { type Answer, type Ask, thrownOf } from './sql-messages.ts'
import type { RowStore } from './rows.ts'
import type { FileOptions } from './sqlite.ts'

const port = parentPort
const say = (answer: Answer): void => port?.postMessage(answer)

async function answer(rows: RowStore, { call, operation, parameters }: Ask): Promise<void> {
  try {
    // The other side has the types of both.
    const value: unknown = await Reflect.apply(rows[operation], rows, parameters)
    say({ call, value })
  } catch (error) {
    say({ call, thrown: thrownOf(error) })
  }
  if (operation === 'close') port?.close()
}

// Given by the side that started this thread.
openRows(workerData as FileOptions).then(
  (rows) => {
    port?.on('message', (ask: Ask) => void answer(rows, ask))
    say({ ready: true })
  },
  (error: unknown) => say({ ready: false, thrown: thrownOf(error) }),
)
