export * from 'zod/v4/locales/index.js';
