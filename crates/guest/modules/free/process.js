// `process` where a package uses it without asking for it.
import process from 'web/process';

export { process };
