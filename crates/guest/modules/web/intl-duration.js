import { DurationFormat } from '@formatjs/intl-durationformat';

DurationFormat.__defaultLocale = 'en-US';
export { DurationFormat };
