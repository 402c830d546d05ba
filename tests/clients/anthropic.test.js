// The official client of Anthropic, as it comes from the registry.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import Anthropic from '@anthropic-ai/sdk';

import { startServer } from './server.js';

const kHello = { model: 'k3-tiny', max_tokens: 100, temperature: 0, messages: [{ role: 'user', content: 'hi!' }] };
let server, client;

before(async () => {
  server = await startServer(['--api-key', 'secret']);
  client = new Anthropic({ baseURL: server.url, apiKey: 'secret', maxRetries: 0 });
});
after(async () => assert.equal(await server.stop(), 0));

test('a message, whole and streamed, is the same', async () => {
  const whole = await client.messages.create(kHello);
  assert.deepEqual(whole.content.map((block) => block.type), ['thinking', 'text']);
  assert.match(whole.content[1].text, /^Hello!/);
  assert.equal(whole.stop_reason, 'end_turn');
  const streamed = await client.messages.stream(kHello).finalMessage();
  assert.deepEqual(streamed.content, whole.content);
  assert.equal(streamed.usage.output_tokens, whole.usage.output_tokens);
});

test('tool use', async () => {
  const tools = [
    { name: 'get_weather', input_schema: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } },
    { name: 'set_timer', input_schema: { type: 'object', properties: { minutes: { type: 'number' } }, required: ['minutes'] } },
  ];
  const body = { ...kHello, tools, messages: [{ role: 'user', content: 'Set a timer for 25 minutes.' }] };
  const whole = await client.messages.create(body);
  const call = whole.content.find((block) => block.type === 'tool_use');
  assert.equal(whole.stop_reason, 'tool_use');
  assert.deepEqual(call.input, { minutes: 25 });
  const streamed = await client.messages.stream(body).finalMessage();
  assert.deepEqual(streamed.content.find((block) => block.type === 'tool_use').input, call.input);
});

test('counting tokens', async () => {
  const whole = await client.messages.create(kHello);
  const count = await client.messages.countTokens({ model: 'k3-tiny', messages: kHello.messages });
  assert.equal(count.input_tokens, whole.usage.input_tokens + whole.usage.cache_read_input_tokens);
});

test('errors', async () => {
  await assert.rejects(client.messages.create({ ...kHello, model: 'other' }), Anthropic.NotFoundError);
  await assert.rejects(client.messages.create({ ...kHello, temperature: 9 }), Anthropic.BadRequestError);
});
