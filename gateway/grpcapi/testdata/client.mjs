// Asks a server with a client that is made of the protocol's published file:
//
//   node client.mjs PROTO HOST:PORT TOKEN
//
// and prints what it got as JSON. NODE_PATH names the folder of @grpc/grpc-js
// and @grpc/proto-loader.
import { createRequire } from "node:module";

const require = createRequire(process.env.NODE_PATH + "/");
const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

const [proto, address, token] = process.argv.slice(2);
const { inference } = grpc.loadPackageDefinition(loader.loadSync(proto, { keepCase: true, longs: Number, defaults: false }));
const client = new inference.GRPCInferenceService(address, grpc.credentials.createInsecure());
const metadata = new grpc.Metadata();
metadata.set("authorization", "Bearer " + token);

const call = (method, request, deadline = 10_000) =>
  new Promise((resolve) =>
    client[method](request, metadata, { deadline: Date.now() + deadline }, (err, answer) =>
      resolve(err ? { code: err.code, details: err.details } : answer)));

const raw = Buffer.alloc(8);
raw.writeFloatLE(1, 0);
raw.writeFloatLE(2, 4);
const x = { name: "x", datatype: "FP32", shape: [2] };

const answers = {
  live: await call("ServerLive", {}),
  ready: await call("ServerReady", {}),
  model: await call("ModelReady", { name: "p" }),
  server: await call("ServerMetadata", {}),
  metadata: await call("ModelMetadata", { name: "p" }),
  typed: await call("ModelInfer", { model_name: "p", id: "7", inputs: [{ ...x, contents: { fp32_contents: [1, 2] } }] }),
  raw: await call("ModelInfer", { model_name: "p", inputs: [x], raw_input_contents: [raw] }),
  misshapen: await call("ModelInfer", { model_name: "p", inputs: [{ ...x, shape: [3], contents: { fp32_contents: [1, 2, 3] } }] }),
  unknown: await call("ModelInfer", { model_name: "q", inputs: [] }),
};
client.close();
console.log(JSON.stringify(answers));
