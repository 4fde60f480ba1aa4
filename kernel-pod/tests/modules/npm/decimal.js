import Decimal from 'decimal.js';
Decimal.set({ precision: 50, toExpNeg: -9e15, toExpPos: 9e15 });
console.log(new Decimal(2).sqrt().toString(), Decimal.acos(-1).toString());
console.log(new Decimal('0.1').plus('0.2').equals('0.3'), new Decimal(10).pow(40).minus(1).toFixed());
console.log(new Decimal('123.456').toSD(4).toHexadecimal(), new Decimal(1).div(7).toFraction(1000).join('/'));
console.log(new Decimal(3.5).toDP(0, Decimal.ROUND_HALF_EVEN).toString(), Decimal.ln(2).times(Decimal.exp(1)).toString());
