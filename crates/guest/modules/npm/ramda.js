export * from 'ramda';
