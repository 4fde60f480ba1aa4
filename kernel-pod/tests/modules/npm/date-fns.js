import { addMonths, differenceInBusinessDays, eachWeekOfInterval, format, formatDistance, intervalToDuration, parse, parseISO } from 'date-fns';
import { de, ja } from 'date-fns/locale';
const day = new Date(2024, 0, 31, 13, 5, 9);
console.log(format(day, "yyyy-MM-dd'T'HH:mm:ss EEEE do QQQ"), format(day, 'PPPPp', { locale: de }), format(day, 'PPP', { locale: ja }));
console.log(format(addMonths(day, 1), 'yyyy-MM-dd'), differenceInBusinessDays(new Date(2024, 2, 1), day));
console.log(formatDistance(day, addMonths(day, 15), { addSuffix: true, locale: de }));
console.log(parse('3. März 2021', 'd. MMMM yyyy', new Date(0), { locale: de }).toISOString(), parseISO('2020-W01-1').toString() !== '');
console.log(intervalToDuration({ start: day, end: new Date(2025, 5, 1) }), eachWeekOfInterval({ start: day, end: addMonths(day, 1) }).length);
