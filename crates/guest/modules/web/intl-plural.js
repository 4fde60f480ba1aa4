import { PluralRules } from '@formatjs/intl-pluralrules';
import { registerPlurals } from 'web/locale-data';

registerPlurals(PluralRules);
PluralRules.getDefaultLocale = () => 'en-US';
export { PluralRules };
