// One program: a module with a global `require`, as a cell has it.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';
import { workerData as program } from 'node:worker_threads';

globalThis.require = createRequire(program);
await import(pathToFileURL(program));
