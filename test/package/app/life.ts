import { createFleet } from 'sandman'

const wait = '30s'
const fleet = createFleet({ databaseUrl: String(process.env.DATABASE_URL) })
const { sandbox: made } = await fleet.spawn({ backend: 'local', wait })
console.log(made.state)
const { sandbox: paused } = await fleet.pause(made.id, { wait })
console.log(paused.state)
const { sandbox: resumed } = await fleet.resume(made.id, { wait })
console.log(resumed.state)
const { execution } = await fleet.execute(made.id, { command: ['echo', 'hello'] })
for await (const { bytes } of fleet.output(execution.id)) process.stdout.write(bytes)
const { sandbox: destroyed } = await fleet.destroy(made.id, { wait })
console.log(destroyed.state)
await fleet.close()
