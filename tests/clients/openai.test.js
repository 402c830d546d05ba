// The official client of OpenAI, as it comes from the registry.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import OpenAI from 'openai';
import { zodResponseFormat } from 'openai/helpers/zod';
import { z } from 'zod';

import { kTools, startServer } from './server.js';

const kHello = [{ role: 'user', content: 'hi!' }];
let server, client;

before(async () => {
  server = await startServer(['--api-key', 'secret']);
  client = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'secret', maxRetries: 0 });
});
after(async () => assert.equal(await server.stop(), 0));

test('models', async () => {
  const list = await client.models.list();
  assert.deepEqual(list.data.map((m) => m.id), ['k3-tiny']);
  assert.equal((await client.models.retrieve('k3-tiny')).object, 'model');
});

test('a chat, whole and streamed, is the same', async () => {
  const whole = await client.chat.completions.create({ model: 'k3-tiny', messages: kHello, temperature: 0 });
  assert.match(whole.choices[0].message.content, /^Hello! I am a tiny Kimi K3 style model/);
  assert.equal(whole.choices[0].finish_reason, 'stop');
  assert.ok(whole.choices[0].message.reasoning_content.length > 0);

  let content = '', reasoning = '', usage;
  const stream = await client.chat.completions.create(
    { model: 'k3-tiny', messages: kHello, temperature: 0, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    content += chunk.choices[0]?.delta.content ?? '';
    reasoning += chunk.choices[0]?.delta.reasoning_content ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(content, whole.choices[0].message.content);
  assert.equal(reasoning, whole.choices[0].message.reasoning_content);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});

test("the streaming helper puts the answer together", async () => {
  const runner = client.chat.completions.stream({ model: 'k3-tiny', messages: kHello, temperature: 0 });
  let text = '';
  runner.on('content', (delta) => { text += delta; });
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, text);
});

test('stopping a stream', async () => {
  const stream = await client.chat.completions.create({ model: 'k3-tiny', messages: kHello, stream: true, ignore_eos: true, max_tokens: 4000 });
  for await (const chunk of stream) {
    if (chunk.choices[0]?.delta.reasoning_content) break;
  }
  stream.controller.abort();
});

test('tool calls, whole and streamed', async () => {
  const body = { model: 'k3-tiny', messages: [{ role: 'user', content: 'Set a timer for 25 minutes.' }], tools: kTools, temperature: 0 };
  const whole = await client.chat.completions.create(body);
  const [call] = whole.choices[0].message.tool_calls;
  assert.equal(whole.choices[0].finish_reason, 'tool_calls');
  assert.equal(call.function.name, 'set_timer');
  assert.deepEqual(JSON.parse(call.function.arguments), { minutes: 25 });
  const streamed = await client.chat.completions.stream(body).finalChatCompletion();
  assert.deepEqual(streamed.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
});

test('the tool that was named is called, with arguments that fit', async () => {
  for (const [name, fits] of [['get_weather', (a) => typeof a.city === 'string'], ['set_timer', (a) => typeof a.minutes === 'number']]) {
    const c = await client.chat.completions.create({ model: 'k3-tiny', messages: kHello, tools: kTools, temperature: 0, max_tokens: 300,
      tool_choice: { type: 'function', function: { name } }, parallel_tool_calls: false });
    assert.equal(c.choices[0].finish_reason, 'tool_calls');
    const [call, ...others] = c.choices[0].message.tool_calls;
    assert.equal(call.function.name, name);
    assert.ok(fits(JSON.parse(call.function.arguments)));
    assert.equal(others.length, 0);
  }
});

test('the tool runner calls the function and goes on', async () => {
  const seen = [];
  const tools = kTools.map((tool) => ({ type: 'function', function: { ...tool.function, parse: JSON.parse,
    function: (given) => { seen.push(given); return 'done'; } } }));
  const runner = client.chat.completions.runTools(
    { model: 'k3-tiny', messages: [{ role: 'user', content: 'Set a timer for 25 minutes.' }], tools, temperature: 0, max_tokens: 200 },
    { maxChatCompletions: 2 });
  await runner.done().catch(() => {});  // a model this small may not stop calling
  assert.deepEqual(seen[0], { minutes: 25 });
});

test('the helper for structured output', async () => {
  const c = await client.chat.completions.parse({ model: 'k3-tiny', messages: [{ role: 'user', content: 'Liam has 3 pens. How many pens?' }],
    temperature: 0, max_tokens: 300, response_format: zodResponseFormat(z.object({ pens: z.number().int() }), 'answer') });
  assert.equal(c.choices[0].finish_reason, 'stop');
  assert.ok(Number.isInteger(c.choices[0].message.parsed.pens));
});

test('completions with logprobs', async () => {
  const c = await client.completions.create({ model: 'k3-tiny', prompt: 'Liam has', max_tokens: 4, temperature: 0, logprobs: 2 });
  assert.equal(c.choices[0].logprobs.tokens.join(''), c.choices[0].text);
});

test('logprobs of a chat', async () => {
  const c = await client.chat.completions.create({ model: 'k3-tiny', messages: kHello, temperature: 0, logprobs: true, top_logprobs: 3 });
  const { content } = c.choices[0].logprobs;
  assert.equal(content.map((t) => t.token).join(''), c.choices[0].message.content);
  assert.equal(content[0].top_logprobs.length, 3);
});

test('responses, whole and streamed', async () => {
  const whole = await client.responses.create({ model: 'k3-tiny', input: 'hi!', temperature: 0 });
  assert.match(whole.output_text, /^Hello!/);
  let text = '', final;
  for await (const event of await client.responses.create({ model: 'k3-tiny', input: 'hi!', temperature: 0, stream: true })) {
    if (event.type === 'response.output_text.delta') text += event.delta;
    if (event.type === 'response.completed') final = event.response;
  }
  assert.equal(text, whole.output_text);
  assert.equal(final.usage.output_tokens, whole.usage.output_tokens);
  const again = await client.responses.stream({ model: 'k3-tiny', input: 'hi!', temperature: 0 }).finalResponse();
  assert.equal(again.output.find((item) => item.type === 'message').content[0].text, text);
});

test('errors are the classes that programs catch', async () => {
  const stranger = new OpenAI({ baseURL: server.url + '/v1', apiKey: 'wrong', maxRetries: 0 });
  await assert.rejects(stranger.models.list(), OpenAI.AuthenticationError);
  await assert.rejects(client.chat.completions.create({ model: 'other', messages: kHello }), OpenAI.NotFoundError);
  await assert.rejects(client.chat.completions.create({ model: 'k3-tiny', messages: kHello, temperature: 9 }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === 'temperature' && /from 0 to 2/.test(error.message));
});
