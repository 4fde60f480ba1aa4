export * from 'uuid';
