import ListFormat from '@formatjs/intl-listformat';
import { register } from 'web/locale-data';

register(ListFormat, 'list');
ListFormat.__defaultLocale = 'en-US';
export { ListFormat };
