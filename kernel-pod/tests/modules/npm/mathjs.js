import { all, create, evaluate, derivative, simplify, unit } from 'mathjs';
console.log(evaluate('sqrt(-4) + 2^10 / 3'), evaluate('det([1, 2; 3, 4])'), String(evaluate('inv([[2, 0], [0, 4]])')), String(evaluate('5.08 cm + 2 inch')));
console.log(derivative('x^3 + sin(x)', 'x').toString(), simplify('2x + 3x - x').toString(), unit('90 km/h').to('m/s').toString());
const exact = create(all, { number: 'BigNumber', precision: 40 });
console.log(exact.evaluate('1/3 + pi').toString(), exact.evaluate('20!').toString(), exact.fraction(1, 3).add(exact.fraction(1, 6)).toString());
console.log(evaluate('f(x) = x^2; [f(3), mean(1, 2, 6), combinations(10, 3)]').toString());
try { evaluate('1 +'); } catch (error) { console.log(error.name, error.message); }
