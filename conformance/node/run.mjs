// Reads a JSON list of programs from stdin and writes a line of JSON for each: {program, stdout, error}.
import { Worker } from 'node:worker_threads';
import { text } from 'node:stream/consumers';

const AT_ONCE = 3;
const PROGRAM_SECONDS_MAX = 60;
const waiting = JSON.parse(await text(process.stdin));

const run = (program) => new Promise((resolve) => {
  const worker = new Worker(new URL('./program.mjs', import.meta.url), { workerData: program, stdout: true, stderr: true, stdin: false });
  let error = null;
  const stdout = text(worker.stdout);
  worker.stderr.resume();
  const late = setTimeout(() => {
    error = `still running after ${PROGRAM_SECONDS_MAX} s`;
    worker.terminate();
  }, PROGRAM_SECONDS_MAX * 1000);
  worker.on('error', (thrown) => { error = String(thrown?.stack ?? thrown); });
  worker.on('exit', async (code) => {
    clearTimeout(late);
    if (code !== 0) error ??= `exit code ${code}`;
    resolve({ program, stdout: await stdout, error });
  });
});

await Promise.all(Array.from({ length: AT_ONCE }, async () => {
  for (let program = waiting.shift(); program !== undefined; program = waiting.shift()) {
    process.stdout.write(`${JSON.stringify(await run(program))}\n`);
  }
}));
