import { NumberFormat } from '@formatjs/intl-numberformat';
import { register } from 'web/locale-data';

register(NumberFormat, 'number');
NumberFormat.__defaultLocale = 'en-US';
export { NumberFormat };
