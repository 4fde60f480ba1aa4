// FormatJS's decimals, once for all of its formatters.
const { BigDecimal } = require('@formatjs/bigdecimal');
module.exports = Object.assign(BigDecimal, { BigDecimal, Decimal: BigDecimal, default: BigDecimal });
