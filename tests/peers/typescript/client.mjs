// The official TypeScript clients against Toolgate: the one of the old era, and the one of both.
//
// usage: node client.mjs MODULES stdio WORKSPACE TOOLGATE DATA_DIR
//        node client.mjs MODULES http WORKSPACE URL TOKEN
//
// MODULES is a directory with node_modules in it. Every deviation throws, and that is a non-zero exit status. The
// client itself holds each result against the output schema of its tool, so a result that does not fit fails here too.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [modules, way, workspace, ...rest] = process.argv.slice(2);
const require = createRequire(join(modules, "package.json"));
const old = {
  ...require("@modelcontextprotocol/sdk/client/index.js"),
  ...require("@modelcontextprotocol/sdk/client/stdio.js"),
  ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
};
const current = {
  ...require("@modelcontextprotocol/client"),
  ...require("@modelcontextprotocol/client/stdio"),
};

const CLIENTS = [
  ["1", old, undefined],
  ["2 in the old era", current, { versionNegotiation: { mode: "legacy" } }],
  ["2", current, { versionNegotiation: { mode: { pin: "2026-07-28" } } }],
];

const TOOLS = [
  "calculator", "convert_temperature", "delete", "echo", "edit", "find", "generate_password", "generate_uuid",
  "get_time", "grep", "hash_text", "json_format", "ls", "read", "string_stats", "url_encode", "write",
];

const TRANSPORTS = {
  stdio: ({ StdioClientTransport }, toolgate, data) =>
    new StdioClientTransport({
      command: toolgate,
      args: ["serve", "--stdio"],
      cwd: workspace,
      env: { PATH: process.env.PATH, HOME: data, TOOLGATE_DATA_DIR: data },
    }),
  http: ({ StreamableHTTPClientTransport }, url, token) =>
    new StreamableHTTPClientTransport(new URL(url), {
      requestInit: { headers: { Authorization: `Bearer ${token}` } },
    }),
};

for (const [name, sdk, options] of CLIENTS) {
  const client = new sdk.Client({ name: "toolgate-peer", version: "0" }, options);
  client.onerror = (error) => {
    throw error;
  };
  await client.connect(TRANSPORTS[way](sdk, ...rest));
  assert.equal(client.getServerVersion().name, "toolgate");
  assert.ok(client.getInstructions());
  assert.ok(client.getServerCapabilities().tools);
  await checkTools(client);
  await checkCalls(client, name);
  await checkErrors(client);
  await checkMany(client);
  // It reports as an error that it hangs up on its own stream.
  client.onerror = () => {};
  await client.close();
  console.log(`typescript client ${name} over ${way}: ok`);
}

async function checkTools(client) {
  const tools = new Map();
  let cursor;
  do {
    const page = await client.listTools(cursor === undefined ? {} : { cursor });
    for (const tool of page.tools) {
      assert.ok(!tools.has(tool.name), `${tool.name} is listed twice`);
      tools.set(tool.name, tool);
    }
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  for (const name of TOOLS) {
    assert.ok(tools.has(name), `${name} is missing`);
  }
  const names = [...tools.keys()];
  assert.deepEqual(names, names.toSorted());
  for (const tool of tools.values()) {
    assert.ok(tool.title && tool.description, tool.name);
    assert.equal(tool.outputSchema.type, "object", tool.name);
  }
  assert.equal(tools.get("read").annotations.readOnlyHint, true);
  assert.equal(tools.get("delete").annotations.destructiveHint, true);
}

async function checkCalls(client, name) {
  const sum = await client.callTool({ name: "calculator", arguments: { expression: "2 * (3 + 4)" } });
  assert.equal(sum.isError, false);
  assert.match(sum.content[0].text, /14/);
  assert.ok(Object.values(sum.structuredContent).includes(14), JSON.stringify(sum));

  const [path, content] = [`typescript ${name}.txt`, "first\nsecond ü\n"];
  const written = await client.callTool({ name: "write", arguments: { path, content } });
  assert.equal(written.isError, false, JSON.stringify(written));
  assert.equal(readFileSync(join(workspace, path), "utf8"), content);
  const read = await client.callTool({ name: "read", arguments: { path } });
  assert.equal(read.isError, false);
  assert.match(read.content[0].text, /second ü/);
  assert.equal(read.structuredContent.path, path);
}

async function checkErrors(client) {
  const code = async (name, args) => {
    const result = await client.callTool({ name, arguments: args });
    assert.equal(result.isError, true, JSON.stringify(result));
    assert.equal(result.structuredContent, undefined);
    const outcome = result._meta["io.github.toolgate/outcome"];
    assert.ok(outcome.message && outcome.remedy && outcome.call, JSON.stringify(outcome));
    assert.ok(result.content[0].text.includes(outcome.code));
    return outcome.code;
  };
  assert.equal(await code("calculator", {}), "invalid_arguments");
  assert.equal(await code("calculator", { expression: 1 }), "invalid_arguments");
  assert.equal(await code("read", { path: "/etc/hostname" }), "path_outside_workspace");
  await assert.rejects(client.callTool({ name: "calculatr", arguments: {} }), (error) => {
    assert.equal(error.code, -32602);
    assert.equal(error.data.code, "unknown_tool");
    return true;
  });
}

async function checkMany(client) {
  const texts = Array.from({ length: 100 }, (_, n) => `message ${n}`);
  const results = await Promise.all(texts.map((text) => client.callTool({ name: "echo", arguments: { text } })));
  assert.deepEqual(results.map((result) => result.content[0].text), texts);
}
