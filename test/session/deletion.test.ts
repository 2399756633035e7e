// A deleted response is gone from the store too, whatever was on its way there.
import { expect, test } from 'vitest'
import { memoryStore } from '../../src/stores/memory.ts'
import type { Store } from '../../src/turn/ports.ts'
import { eventually } from '../wire/server.ts'
import { begin, compileSchemas, endOf, simulated, startWith } from './started.ts'

test('a response that ends while it is deleted is not written after all', async () => {
  compileSchemas()
  const kept = memoryStore()
  let removing = (): void => {}
  let saving = (): void => {}
  let saves = 0
  const store: Store = {
    ...kept,
    async remove(id, owner) {
      const removed = await kept.remove(id, owner)
      await new Promise<void>((resolve) => (removing = resolve))
      return removed
    },
    async save(records) {
      saves += records.length
      await new Promise<void>((resolve) => (saving = resolve))
      await kept.save(records)
    },
  }
  const turns = [{ when: { contains: 'soon' }, steps: [{ text: 'Wait' }, { pause: 300 }, { text: 'done.' }] }]
  const server = await startWith(simulated({ scenario: { turns } }), { store })
  const socket = await server.socket()
  const { id } = await begin(socket, { input: 'soon', store: true })
  await socket.next('response.output_text.delta')
  const deleted = server.http().delete(`/v1/responses/${id}`)
  await endOf(socket, id)
  // Long enough for a write to begin, if there is one.
  await new Promise((resolve) => setTimeout(resolve, 100))
  removing()
  expect((await deleted).json).toMatchObject({ id, deleted: true })
  saving()
  await eventually(() => expect(server.app.counts().unsettled).toBe(0))
  expect(await kept.load(id, 'local/local')).toBeUndefined()
  expect(saves).toBe(0)
  await socket.close()
  await server.close()
})
