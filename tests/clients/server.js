// A server of our own for the tests: the program, on a port that is free.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';

const root = path.resolve(import.meta.dirname, '../..');

export async function startServer(flags = []) {
  const program = process.env.NIBBLE_PROGRAM ?? path.join(root, 'build/release/nibble');
  const child = spawn(program, ['serve', '-m', path.join(root, 'models/k3-tiny'), '--port', '0', '--no-access-log', ...flags],
    { stdio: ['ignore', 'pipe', 'inherit'] });
  let text = '';
  for await (const chunk of child.stdout) {
    text += chunk;
    if (text.includes('\n')) break;
  }
  const url = text.match(/ on (http\S+) /)[1];
  const stop = async () => {
    child.kill('SIGTERM');
    const [code] = child.exitCode === null ? await once(child, 'exit') : [child.exitCode];
    return code;
  };
  return { url, stop };
}

export const kTools = [
  { type: 'function', function: { name: 'get_weather', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } } },
  { type: 'function', function: { name: 'set_timer', parameters: { type: 'object', properties: { minutes: { type: 'number' } }, required: ['minutes'] } } },
];
