import RelativeTimeFormat from '@formatjs/intl-relativetimeformat';
import { register } from 'web/locale-data';

register(RelativeTimeFormat, 'relative');
RelativeTimeFormat.__defaultLocale = 'en-US';
export { RelativeTimeFormat };
