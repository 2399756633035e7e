import { startTestServer, pause } from './wire/server.ts'
import WebSocket from 'ws'
import v8 from 'node:v8'
const s = await startTestServer({engines:{simulated:{type:'simulated',context:100000000}}})
const run = async (mk:()=>Buffer, n:number) => { const ws = new WebSocket(s.wsUrl); await new Promise(r=>ws.once('open',r)); let done=0; ws.on('message',(d:Buffer)=>{ const t=d.subarray(0,60).toString(); if (t.includes('completed')||t.includes('"error"')||t.includes('failed')) done++ }); for(let i=0;i<n;i++){const want=done+1; const t=performance.now(); ws.send(mk(),{binary:false}); while(done<want) await pause(5); console.log(i, Math.round(performance.now()-t))} ws.close() }
const mem=async(l:string)=>{for(const _ of [1,2,3]){await pause(700);(globalThis as any).gc()} console.log(l, Math.round(process.memoryUsage().heapUsed/1e6), s.app.counts())}
await mem('start')
await run(()=>Buffer.from(JSON.stringify({type:'response.create',model:'m',store:false,generate:false,input:[{type:'reasoning',summary:[],encrypted_content:'x'.repeat(20_000_000)}]})),5)
await mem('after reasoning')
await run(()=>Buffer.from(JSON.stringify({type:'response.create',model:'m',store:false,generate:true,input:[{type:'reasoning',summary:[],encrypted_content:'x'.repeat(20_000_000)},{role:'user',content:'hi'}]})),5)
await mem('after reasoning generate')
await run(()=>Buffer.from(JSON.stringify({type:'response.create',model:'m',store:false,generate:false,input:[{role:'user',content:'hi'.repeat(2000000)}]})),5)
await mem('after text')
process.exit()
