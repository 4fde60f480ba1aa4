import { DisplayNames } from '@formatjs/intl-displaynames';
import { register } from 'web/locale-data';

register(DisplayNames, 'names');
DisplayNames.__defaultLocale = 'en-US';
export { DisplayNames };
