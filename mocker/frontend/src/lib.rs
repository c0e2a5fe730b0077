//! OpenAI HTTP server in front of workers: tokenizer, routing, migration, metrics.
